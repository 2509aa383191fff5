"""Configurations and their groups say by which code trials ran; of stored ones it is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Configurations get the hash of their method's code, and groups that of their newest trial."""
    for table in ("configurations", "contests"):
        op.add_column(table, sa.Column("code", sa.Text))


def downgrade() -> None:
    """The hashes are dropped; what has the same settings by other code stays a row of its own."""
    for table in ("configurations", "contests"):
        with op.batch_alter_table(table) as changed:
            changed.drop_column("code")
