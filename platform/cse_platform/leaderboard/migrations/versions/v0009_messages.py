"""Adds drivers' messages to sweeps, and to trials why they were stopped or where they were reused
from.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """All of it is unknown for existing rows."""
    op.create_table(
        "driver_messages",
        sa.Column("journal", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("sweep_id", sa.Integer, sa.ForeignKey("sweeps.id"), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.CheckConstraint("level IN ('note', 'warning', 'error')", "level"),
        sa.Index("ix_driver_messages_newest", "sweep_id", "time"),
    )
    for table in ("trials", "other_attempts"):
        op.add_column(table, sa.Column("why", sa.Text))
    op.add_column("sweep_trials", sa.Column("reused", sa.DateTime(timezone=True)))
    op.add_column("sweep_trials", sa.Column("reused_from", sa.Text))


def downgrade() -> None:
    """Drop the messages, which remain in the journals."""
    for table, column in (
        ("sweep_trials", "reused_from"),
        ("sweep_trials", "reused"),
        ("other_attempts", "why"),
        ("trials", "why"),
    ):
        with op.batch_alter_table(table) as changed:
            changed.drop_column(column)
    op.drop_table("driver_messages")
