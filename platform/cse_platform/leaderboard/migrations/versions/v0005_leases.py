"""Adds leases, by which a driver holds its sweep so that no second one runs it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Existing sweeps have no lease: drivers of older versions took none."""
    op.create_table(
        "sweep_leases",
        sa.Column("sweep", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text),
        sa.Column("journal", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heartbeat", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    """Drop the leases."""
    op.drop_table("sweep_leases")
