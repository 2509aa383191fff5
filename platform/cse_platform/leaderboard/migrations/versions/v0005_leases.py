"""A driver holds its sweep by a lease, so that no second one can run it at the same time."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """No stored sweep is held: drivers of an older version have no lease."""
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
    """An older version knows no leases."""
    op.drop_table("sweep_leases")
