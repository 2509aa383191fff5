"""Adds the costs of trials: minutes of training, sentences per second, peak memory."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_BATCH = 5000
_KEYS = {"trials": ("id",), "other_attempts": ("trial_id", "journal")}
_MEMORY = {"host_memory_gib": "peak_memory_mib", "gpu_memory_gib": "gpu_peak_memory_mib"}


def upgrade() -> None:
    """Existing trials get their peak memory, which is in their provenance."""
    for table, keys in _KEYS.items():
        op.add_column(table, sa.Column("costs", sa.JSON, nullable=False, server_default="{}"))
        _take_memory(table, keys)


def downgrade() -> None:
    """Drop the costs, which remain in the journals."""
    for table in _KEYS:
        with op.batch_alter_table(table) as changed:
            changed.drop_column("costs")


def _take_memory(name: str, keys: tuple[str, ...]) -> None:
    connection = op.get_bind()
    columns: list[sa.ColumnClause[Any]] = [sa.column(key) for key in keys]
    facts, costs = sa.column("provenance", sa.JSON), sa.column("costs", sa.JSON)
    table = sa.table(name, *columns, facts, costs)
    query = sa.select(*columns, facts).select_from(table).order_by(*columns).limit(_BATCH)
    same = (column == sa.bindparam(f"of_{column.name}") for column in columns)
    update = sa.update(table).where(*same).values(costs=sa.bindparam("found", type_=sa.JSON))
    number = connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
    for offset in range(0, number, _BATCH):
        found = [
            {**{f"of_{key}": row[place] for place, key in enumerate(keys)}, "found": memory}
            for row in connection.execute(query.offset(offset))
            if (memory := _memory(row.provenance))
        ]
        if found:
            connection.execute(update, found)


def _memory(provenance: Any) -> dict[str, float]:
    """Read the peak memory in GiB; facts from another leaderboard can be any JSON."""
    facts = provenance if isinstance(provenance, dict) else {}
    texts = {name: str(facts.get(key, "")) for name, key in _MEMORY.items()}
    return {name: int(text) / 1024 for name, text in texts.items() if text.isdecimal()}
