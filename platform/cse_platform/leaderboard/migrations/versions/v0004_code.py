"""Adds code hashes to configurations and their groups; they are unknown for existing rows."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the hash of the method's code; a group's is that of its newest trial."""
    for table in ("configurations", "contests"):
        op.add_column(table, sa.Column("code", sa.Text))


def downgrade() -> None:
    """Drop the hashes; configurations that differ only in code remain separate rows."""
    for table in ("configurations", "contests"):
        with op.batch_alter_table(table) as changed:
            changed.drop_column("code")
