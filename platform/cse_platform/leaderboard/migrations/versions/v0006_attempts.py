"""Distinguishes attempts at a trial by their journals; for existing rows these are unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

STATES = "state IN ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL')"


def upgrade() -> None:
    """Add the journal to trials and sweeps, and tables of hidden attempts and early events."""
    for table in ("trials", "sweeps"):
        op.add_column(table, sa.Column("journal", sa.Text, nullable=False, server_default=""))
    op.add_column("contests", sa.Column("code_since", sa.DateTime(timezone=True)))
    _add_other_attempts()
    op.create_table(
        "other_points",
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("journal", sa.Text, nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.CheckConstraint("step >= 0", name="step"),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_other_points_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "journal", "step", name="pk_other_points"),
    )
    op.create_table(
        "early_events",
        sa.Column("journal", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("trial", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("journal", "position", name="pk_early_events"),
    )
    op.create_index("ix_early_events_trial", "early_events", ["trial"])


def _add_other_attempts() -> None:
    op.create_table(
        "other_attempts",
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("journal", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True)),
        sa.Column("best_step", sa.Integer),
        sa.Column("best_value", sa.Double),
        sa.Column("start_value", sa.Double),
        sa.Column("model", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("wall_seconds", sa.Double),
        sa.Column("machine_id", sa.Integer),
        sa.Column("provenance", sa.JSON, nullable=False),
        sa.Column("best_metrics", sa.JSON, nullable=False),
        sa.CheckConstraint(STATES, name="state"),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_other_attempts_trial_id"),
        sa.ForeignKeyConstraint(
            ["machine_id"], ["machines.id"], name="fk_other_attempts_machine_id"
        ),
        sa.PrimaryKeyConstraint("trial_id", "journal", name="pk_other_attempts"),
    )


def downgrade() -> None:
    """Drop hidden attempts and early events."""
    for table in ("early_events", "other_points", "other_attempts"):
        op.drop_table(table)
    for table, column in (("contests", "code_since"), ("sweeps", "journal"), ("trials", "journal")):
        with op.batch_alter_table(table) as changed:
            changed.drop_column(column)
