"""Adds identities of scores, evaluations, cosines of every pair, and openings of test sets."""

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations

revision = "0002"
down_revision = "0001"

OLD_KEY = ("trial_id", "task", "split", "metric")
NEW_KEY = (*OLD_KEY, "identity")
OLD_CHECK = "value BETWEEN -1 AND 1"
NEW_CHECK = "metric IN ('alignment', 'effective_rank', 'uniformity') OR value BETWEEN -1 AND 1"

OWN_DEV_IDENTITY = """
    SELECT configurations.dev_identity FROM trials
    JOIN configurations ON configurations.id = trials.configuration_id
    WHERE trials.id = scores.trial_id
"""


def upgrade() -> None:
    """Existing scores are dev scores of the trials, measured when these finished."""
    op.add_column("scores", sa.Column("identity", sa.Text))
    op.add_column("scores", sa.Column("measured", sa.DateTime(timezone=True)))
    ended = "SELECT coalesce(finished, started) FROM trials WHERE trials.id = scores.trial_id"
    op.execute(f"UPDATE scores SET identity = ({OWN_DEV_IDENTITY}), measured = ({ended})")
    with op.batch_alter_table("scores", copy_from=_scores(OLD_KEY, OLD_CHECK)) as scores:
        scores.alter_column("identity", existing_type=sa.Text, nullable=False)
        scores.alter_column("measured", existing_type=sa.DateTime(timezone=True), nullable=False)
        _swap(scores, NEW_KEY, NEW_CHECK)
    _create_evaluations()
    _create_pair_sets()
    _create_pair_similarities()
    _create_test_releases()


def downgrade() -> None:
    """Keep only the trials' own dev scores."""
    for table in ("test_releases", "pair_similarities", "pair_sets", "evaluations"):
        op.drop_table(table)
    own = f"identity = ({OWN_DEV_IDENTITY}) AND {OLD_CHECK}"
    op.execute(f"DELETE FROM scores WHERE NOT ({own})")
    with op.batch_alter_table("scores", copy_from=_scores(NEW_KEY, NEW_CHECK)) as scores:
        _swap(scores, OLD_KEY, OLD_CHECK)
        scores.drop_column("measured")
        scores.drop_column("identity")


def _scores(key: tuple[str, ...], check: str) -> sa.Table:
    """Return the table before the change; SQLite does not reflect its CHECK constraints."""
    return sa.Table(
        "scores",
        sa.MetaData(),
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("identity", sa.Text),
        sa.Column("measured", sa.DateTime(timezone=True)),
        sa.CheckConstraint(check, name=op.f("ck_scores_fraction")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_scores_trial_id"),
        sa.PrimaryKeyConstraint(*key, name="pk_scores"),
    )


def _swap(scores: BatchOperations, key: tuple[str, ...], check: str) -> None:
    scores.drop_constraint("pk_scores", type_="primary")
    scores.create_primary_key("pk_scores", list(key))
    scores.drop_constraint(op.f("ck_scores_fraction"), type_="check")
    scores.create_check_constraint(op.f("ck_scores_fraction"), check)


def _create_evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("identity", name="pk_evaluations"),
    )


def _create_pair_sets() -> None:
    op.create_table(
        "pair_sets",
        sa.Column("data_sha256", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("pairs", sa.Integer, nullable=False),
        sa.Column("subsets", sa.JSON, nullable=False),
        sa.Column("gold", sa.LargeBinary, nullable=False),
        sa.CheckConstraint("pairs > 0", name=op.f("ck_pair_sets_pairs")),
        sa.PrimaryKeyConstraint("data_sha256", name="pk_pair_sets"),
    )


def _create_pair_similarities() -> None:
    op.create_table(
        "pair_similarities",
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("data_sha256", sa.Text, nullable=False),
        sa.Column("cosines", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_pair_similarities_trial_id"),
        sa.ForeignKeyConstraint(
            ["data_sha256"], ["pair_sets.data_sha256"], name="fk_pair_similarities_data_sha256"
        ),
        sa.PrimaryKeyConstraint("trial_id", "task", "identity", name="pk_pair_similarities"),
    )


def _create_test_releases() -> None:
    op.create_table(
        "test_releases",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("trial_id", sa.Integer, nullable=False),
        sa.Column("opened", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("tasks", sa.JSON, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.CheckConstraint(
            "source IN ('builtin', 'hub', 'senteval')", name=op.f("ck_test_releases_source")
        ),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_test_releases_trial_id"),
        sa.PrimaryKeyConstraint("id", name="pk_test_releases"),
        sa.UniqueConstraint(
            "trial_id", "opened", "who", name="uq_test_releases_trial_id_opened_who"
        ),
    )
    op.create_index("ix_test_releases_trial_id", "test_releases", ["trial_id"])
