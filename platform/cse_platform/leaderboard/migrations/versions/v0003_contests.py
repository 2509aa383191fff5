"""Adds tables of groups that compete on dev ("contests"), starts, tags and machines, and GPU times.

Evaluations get the source of their data.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

KEY = ("method", "backbone", "dev_identity")
CONTEST = (*KEY, "dev_checkpoint", "dev_search", "dev_source")
SAME_CONTEST = " AND ".join(f"contests.{name} = configurations.{name}" for name in KEY)
OLD_INDEX = "ix_configurations_method_backbone_dev_identity_mean"
BEST_FIRST = {"ix_configurations_confirmed": "n > 1", "ix_configurations_complete": "n > 0"}
SPENDERS = ("sweep_trials", "trials", "configurations")
BATCH = 1000


def upgrade() -> None:
    """Assign configurations to contests, and give trials their machine and GPU time."""
    _create_tables()
    for table in SPENDERS:
        op.add_column(table, sa.Column("gpu_seconds", sa.Double, server_default="0"))
    op.add_column("trials", sa.Column("machine_id", sa.Integer))
    _place_trials()
    _spread_gpu_seconds()
    _put_under_contests()
    with op.batch_alter_table("trials") as trials:
        trials.create_foreign_key("fk_trials_machine_id", "machines", ["machine_id"], ["id"])
        trials.create_index("ix_trials_machine_id", ["machine_id"])
        trials.create_index("ix_trials_finished", ["finished"])
    op.execute(
        "INSERT INTO sweep_starts (sweep_id, started, provenance, packages, diffs) "
        "SELECT id, started, provenance, '{}', '{}' FROM sweeps"
    )
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.drop_column("provenance")
    _tell_sources()


def downgrade() -> None:
    """Copy the contests' columns back to configurations; drop everything else of this version."""
    with op.batch_alter_table("evaluations") as evaluations:
        evaluations.drop_column("source")
    op.add_column("sweeps", sa.Column("provenance", sa.JSON))
    last = "SELECT max(started) FROM sweep_starts WHERE sweep_id = sweeps.id"
    op.execute(
        "UPDATE sweeps SET provenance = coalesce((SELECT provenance FROM sweep_starts "
        f"WHERE sweep_id = sweeps.id AND started = ({last})), '{{}}')"
    )
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.alter_column("provenance", existing_type=sa.JSON, nullable=False)
    with op.batch_alter_table("trials") as trials:
        trials.drop_index("ix_trials_finished")
        trials.drop_index("ix_trials_machine_id")
        trials.drop_constraint("fk_trials_machine_id", type_="foreignkey")
        trials.drop_column("machine_id")
    _take_from_contests()
    for table in SPENDERS:
        with op.batch_alter_table(table) as spender:
            spender.drop_column("gpu_seconds")
    for table in ("contests", "machines", "sweep_tags", "sweep_starts"):
        op.drop_table(table)


def _create_tables() -> None:
    op.create_table(
        "contests",
        sa.Column("id", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in CONTEST),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("gpu_seconds", sa.Double, nullable=False),
        sa.CheckConstraint("trials >= 0 AND gpu_seconds >= 0", name=op.f("ck_contests_effort")),
        sa.PrimaryKeyConstraint("id", name="pk_contests"),
        sa.UniqueConstraint(
            "method", "backbone", "dev_identity", name="uq_contests_method_backbone_dev_identity"
        ),
    )
    op.create_table(
        "machines",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("hardware", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_machines"),
        sa.UniqueConstraint("host", "hardware", name="uq_machines_host_hardware"),
    )
    op.create_table(
        "sweep_starts",
        sa.Column("sweep_id", sa.Integer, nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("provenance", sa.JSON, nullable=False),
        sa.Column("packages", sa.JSON, nullable=False),
        sa.Column("diffs", sa.JSON, nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_sweep_starts_sweep_id"),
        sa.PrimaryKeyConstraint("sweep_id", "started", name="pk_sweep_starts"),
    )
    op.create_table(
        "sweep_tags",
        sa.Column("sweep_id", sa.Integer, nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_sweep_tags_sweep_id"),
        sa.PrimaryKeyConstraint("sweep_id", "tag", name="pk_sweep_tags"),
    )
    op.create_index("ix_sweep_tags_tag", "sweep_tags", ["tag"])


def _place_trials() -> None:
    """Set the machine and GPU time of trials, from their provenance and their sweeps' GPU share."""
    connection = op.get_bind()
    share: dict[int, float] = {}
    specs = connection.execute(
        sa.text(
            "SELECT trial_id, spec FROM sweep_trials JOIN sweeps ON sweeps.id = sweep_id "
            "ORDER BY sweep_id DESC"
        )
    )
    for trial, spec in specs:
        share[trial] = (_json(spec).get("resources") or {}).get("gpu", 0)
    machines: dict[tuple[str, str], int] = {}
    found = connection.execute(sa.text("SELECT id, wall_seconds, provenance FROM trials")).all()
    placed = [
        {
            "trial": trial,
            "seconds": (seconds or 0.0) * share.get(trial, 0),
            "machine": _machine(_json(provenance), machines),
        }
        for trial, seconds, provenance in found
    ]
    for (host, hardware), number in machines.items():
        connection.execute(
            sa.text("INSERT INTO machines (id, host, hardware) VALUES (:id, :host, :hardware)"),
            {"id": number, "host": host, "hardware": hardware},
        )
    if connection.dialect.name == "postgresql" and machines:
        connection.execute(
            sa.text(f"SELECT setval(pg_get_serial_sequence('machines', 'id'), {len(machines)})")
        )
    update = sa.text(
        "UPDATE trials SET gpu_seconds = :seconds, machine_id = :machine WHERE id = :trial"
    )
    for start in range(0, len(placed), BATCH):
        connection.execute(update, placed[start : start + BATCH])


def _machine(provenance: dict[str, Any], machines: dict[tuple[str, str], int]) -> int | None:
    hardware = provenance.get("gpu") or provenance.get("cpu")
    if not hardware or "host" not in provenance:
        return None
    return machines.setdefault((provenance["host"], hardware), len(machines) + 1)


def _json(stored: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(stored) if isinstance(stored, str) else stored
    return loaded


def _spread_gpu_seconds() -> None:
    """Copy a trial's GPU seconds to its first sweep, whose share they use; sum by configuration."""
    first = "SELECT min(sweep_id) FROM sweep_trials AS link WHERE link.trial_id = trials.id"
    op.execute(
        "UPDATE sweep_trials SET gpu_seconds = coalesce((SELECT gpu_seconds FROM trials "
        f"WHERE trials.id = sweep_trials.trial_id AND sweep_trials.sweep_id = ({first})), 0)"
    )
    op.execute(
        "UPDATE configurations SET gpu_seconds = (SELECT coalesce(sum(trials.gpu_seconds), 0) "
        "FROM trials WHERE trials.configuration_id = configurations.id)"
    )
    for table in SPENDERS:
        with op.batch_alter_table(table) as spender:
            spender.alter_column(
                "gpu_seconds", existing_type=sa.Double, nullable=False, server_default=None
            )


def _tell_sources() -> None:
    """Set an identity's source if all openings of test sets for its trials have the same one."""
    op.add_column("evaluations", sa.Column("source", sa.Text))
    op.execute(
        "UPDATE evaluations SET source = (SELECT min(test_releases.source) FROM scores "
        "JOIN test_releases ON test_releases.trial_id = scores.trial_id "
        "WHERE scores.identity = evaluations.identity AND scores.split = 'test' "
        "GROUP BY scores.identity HAVING count(DISTINCT test_releases.source) = 1)"
    )


def _put_under_contests() -> None:
    op.execute(
        f"INSERT INTO contests ({', '.join(CONTEST)}, trials, gpu_seconds) "
        "SELECT method, backbone, dev_identity, min(dev_checkpoint), min(dev_search), "
        "min(dev_source), sum(trials), sum(gpu_seconds) FROM configurations "
        "GROUP BY method, backbone, dev_identity ORDER BY min(id)"
    )
    op.add_column("configurations", sa.Column("contest_id", sa.Integer))
    op.execute(
        "UPDATE configurations SET contest_id = "
        f"(SELECT contests.id FROM contests WHERE {SAME_CONTEST})"
    )
    op.drop_index(OLD_INDEX, "configurations")

    with op.batch_alter_table("configurations") as configurations:
        configurations.alter_column("contest_id", existing_type=sa.Integer, nullable=False)
        configurations.create_foreign_key(
            "fk_configurations_contest_id", "contests", ["contest_id"], ["id"]
        )
        for name in CONTEST:
            configurations.drop_column(name)
    for name, condition in BEST_FIRST.items():
        op.create_index(
            name,
            "configurations",
            ["contest_id", "mean", "hash"],
            sqlite_where=sa.text(condition),
            postgresql_where=sa.text(condition),
        )


def _take_from_contests() -> None:
    for name in BEST_FIRST:
        op.drop_index(name, "configurations")
    for name in CONTEST:
        op.add_column("configurations", sa.Column(name, sa.Text))
        op.execute(
            f"UPDATE configurations SET {name} = "
            f"(SELECT {name} FROM contests WHERE contests.id = configurations.contest_id)"
        )

    with op.batch_alter_table("configurations") as configurations:
        for name in CONTEST:
            configurations.alter_column(name, existing_type=sa.Text, nullable=False)
        configurations.drop_constraint("fk_configurations_contest_id", type_="foreignkey")
        configurations.drop_column("contest_id")
    op.create_index(OLD_INDEX, "configurations", ["method", "backbone", "dev_identity", "mean"])
