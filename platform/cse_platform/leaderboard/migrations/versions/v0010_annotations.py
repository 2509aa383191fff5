"""Adds notes, tags and stars of trials, configurations and sweeps."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "annotations",
        sa.Column("about", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("field", sa.Text, primary_key=True),
        sa.Column("word", sa.Text, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("stands", sa.Boolean, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("about IN ('trial', 'configuration', 'sweep')", "about"),
        sa.CheckConstraint("field IN ('note', 'star', 'tag')", "field"),
    )


def downgrade() -> None:
    """Drop the annotations, which remain in their journal."""
    op.drop_table("annotations")
