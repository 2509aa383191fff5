"""A configuration says by which code its trials ran; that of stored ones is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Configurations get a hash of their method's code."""
    op.add_column("configurations", sa.Column("code", sa.Text))


def downgrade() -> None:
    """The hash is dropped; what has the same settings by other code stays a row of its own."""
    with op.batch_alter_table("configurations") as configurations:
        configurations.drop_column("code")
