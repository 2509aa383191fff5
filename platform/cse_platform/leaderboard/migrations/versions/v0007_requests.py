"""A sweep's driver hears what is asked of the sweep from elsewhere."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Nothing was asked yet."""
    op.create_table(
        "sweep_requests",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("sweep", sa.Text, nullable=False, index=True),
        sa.Column("event", sa.JSON, nullable=False),
        sa.Column("taken", sa.DateTime(timezone=True)),
    )


def downgrade() -> None:
    """An older version hears nothing."""
    op.drop_table("sweep_requests")
