"""Adds people's requests to the driver of a sweep."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add an empty table."""
    op.create_table(
        "sweep_requests",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("sweep", sa.Text, nullable=False, index=True),
        sa.Column("event", sa.JSON, nullable=False),
        sa.Column("taken", sa.DateTime(timezone=True)),
    )


def downgrade() -> None:
    """Drop the requests."""
    op.drop_table("sweep_requests")
