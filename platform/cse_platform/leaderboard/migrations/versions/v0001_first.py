"""The first schema: sweeps, configurations, trials, dev curves, scores, journal cursors."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    _create_sweeps()
    _create_configurations()
    _create_trials()
    _create_sweep_trials()
    _create_dev_points()
    _create_scores()
    op.create_table(
        "journal_cursors",
        sa.Column("journal", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("journal", name="pk_journal_cursors"),
    )


def downgrade() -> None:
    """Drop all tables."""
    for table in (
        "journal_cursors",
        "scores",
        "dev_points",
        "sweep_trials",
        "trials",
        "configurations",
        "sweeps",
    ):
        op.drop_table(table)


def _create_sweeps() -> None:
    op.create_table(
        "sweeps",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("backbone", sa.Text, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("provenance", sa.JSON, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True)),
        sa.CheckConstraint(
            "state IN ('RUNNING', 'COMPLETE', 'INTERRUPTED')", name=op.f("ck_sweeps_state")
        ),
        sa.PrimaryKeyConstraint("id", name="pk_sweeps"),
        sa.UniqueConstraint("name", name="uq_sweeps_name"),
    )


def _create_configurations() -> None:
    op.create_table(
        "configurations",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("backbone", sa.Text, nullable=False),
        sa.Column("dev_identity", sa.Text, nullable=False),
        sa.Column("dev_checkpoint", sa.Text, nullable=False),
        sa.Column("dev_search", sa.Text, nullable=False),
        sa.Column("dev_source", sa.Text, nullable=False),
        sa.Column("corpus", sa.Text, nullable=False),
        sa.Column("values", sa.JSON, nullable=False),
        sa.Column("searched", sa.JSON, nullable=False),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("mean", sa.Double),
        sa.Column("m2", sa.Double, nullable=False),
        sa.CheckConstraint(
            "n >= 0 AND n <= trials AND m2 >= 0", name=op.f("ck_configurations_moments")
        ),
        sa.CheckConstraint(
            "(n = 0) = (mean IS NULL)", name=op.f("ck_configurations_mean_of_something")
        ),
        sa.PrimaryKeyConstraint("id", name="pk_configurations"),
        sa.UniqueConstraint("hash", name="uq_configurations_hash"),
    )
    op.create_index(
        "ix_configurations_method_backbone_dev_identity_mean",
        "configurations",
        ["method", "backbone", "dev_identity", "mean"],
    )


def _create_trials() -> None:
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("configuration_id", sa.Integer, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True)),
        sa.Column("best_step", sa.Integer),
        sa.Column("best_value", sa.Double),
        sa.Column("start_value", sa.Double),
        sa.Column("model", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("wall_seconds", sa.Double),
        sa.Column("provenance", sa.JSON, nullable=False),
        sa.CheckConstraint(
            "state IN ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL')", name=op.f("ck_trials_state")
        ),
        sa.CheckConstraint(
            "state <> 'COMPLETE' OR best_value IS NOT NULL",
            name=op.f("ck_trials_complete_has_a_value"),
        ),
        sa.ForeignKeyConstraint(
            ["configuration_id"], ["configurations.id"], name="fk_trials_configuration_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint("configuration_id", "seed", name="uq_trials_configuration_id_seed"),
        sa.UniqueConstraint("key", name="uq_trials_key"),
    )


def _create_sweep_trials() -> None:
    op.create_table(
        "sweep_trials",
        sa.Column("sweep_id", sa.Integer, nullable=False),
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("search_number", sa.Integer),
        sa.CheckConstraint(
            "role IN ('search', 'confirm', 'repeat')", name=op.f("ck_sweep_trials_role")
        ),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_sweep_trials_sweep_id"),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_sweep_trials_trial_id"),
        sa.PrimaryKeyConstraint("sweep_id", "trial_id", name="pk_sweep_trials"),
        sa.UniqueConstraint("sweep_id", "number", name="uq_sweep_trials_sweep_id_number"),
    )
    op.create_index("ix_sweep_trials_trial_id", "sweep_trials", ["trial_id"])


def _create_dev_points() -> None:
    op.create_table(
        "dev_points",
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("step", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.CheckConstraint("step >= 0", name=op.f("ck_dev_points_step")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_dev_points_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "step", name="pk_dev_points"),
    )


def _create_scores() -> None:
    op.create_table(
        "scores",
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("value", sa.Double, nullable=False),
        sa.CheckConstraint("value BETWEEN -1 AND 1", name=op.f("ck_scores_fraction")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_scores_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "task", "split", "metric", name="pk_scores"),
    )
