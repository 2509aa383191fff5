"""Sweeps say which budget ended their search, and trials when their model was deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Of stored ones nothing is known: only the number of trials ended a search so far."""
    op.add_column("sweeps", sa.Column("ended_by", sa.Text))
    for table in ("trials", "other_attempts"):
        op.add_column(table, sa.Column("model_deleted", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """A model that was deleted is then one that was not kept."""
    for table, column in (
        ("other_attempts", "model_deleted"),
        ("trials", "model_deleted"),
        ("sweeps", "ended_by"),
    ):
        with op.batch_alter_table(table) as changed:
            changed.drop_column(column)
