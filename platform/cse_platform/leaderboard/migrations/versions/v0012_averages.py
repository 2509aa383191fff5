"""Marks configurations that are averages of other trials' weights."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_INDEX = "ix_configurations_averages"


def upgrade() -> None:
    """No existing configuration is an average."""
    op.add_column("configurations", sa.Column("averages", sa.JSON))
    condition = sa.text("averages IS NOT NULL")
    op.create_index(
        _INDEX,
        "configurations",
        ["contest_id", "mean", "hash"],
        sqlite_where=condition,
        postgresql_where=condition,
    )


def downgrade() -> None:
    """An average becomes a configuration like any other."""
    op.drop_index(_INDEX, "configurations")
    with op.batch_alter_table("configurations") as configurations:
        configurations.drop_column("averages")
