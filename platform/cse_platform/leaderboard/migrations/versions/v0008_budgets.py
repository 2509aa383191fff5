"""Adds the budget that ended a sweep's search, and when a trial's model was deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Both are NULL for existing rows: only the number of trials has ended searches so far."""
    op.add_column("sweeps", sa.Column("ended_by", sa.Text))
    for table in ("trials", "other_attempts"):
        op.add_column(table, sa.Column("model_deleted", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """A deleted model becomes one that was not kept."""
    for table, column in (
        ("other_attempts", "model_deleted"),
        ("trials", "model_deleted"),
        ("sweeps", "ended_by"),
    ):
        with op.batch_alter_table(table) as changed:
            changed.drop_column(column)
