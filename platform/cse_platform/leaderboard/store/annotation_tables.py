"""The table of what people write about trials, configurations and sweeps."""

from datetime import datetime

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from cse_platform.leaderboard.store.base import Base


class AnnotationRecord(Base):
    """A note, a star or a tag, as it was written last.

    It refers to no other row: trials and sweeps that a journal brings anew find theirs again.
    """

    __tablename__ = "annotations"
    __table_args__ = (
        CheckConstraint("about IN ('trial', 'configuration', 'sweep')", "about"),
        CheckConstraint("field IN ('note', 'star', 'tag')", "field"),
    )

    about: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    """A trial's key, a configuration's hash, a sweep's name."""
    field: Mapped[str] = mapped_column(primary_key=True)
    word: Mapped[str] = mapped_column(primary_key=True)
    """The tag; empty of a note or a star."""
    text: Mapped[str]
    """Of a note."""
    stands: Mapped[bool]
    """What was taken away stays as a row, so that an older copy cannot bring it back."""
    who: Mapped[str]
    time: Mapped[datetime]
