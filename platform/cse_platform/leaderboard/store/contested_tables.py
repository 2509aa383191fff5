"""What waits beside the trials: attempts that another one outdoes, and events that came early."""

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from cse_platform.leaderboard.store.attempt import AttemptColumns, PointColumns
from cse_platform.leaderboard.store.base import Base


class OtherAttemptRecord(AttemptColumns, Base):
    """An attempt at a trial whose row shows another one. It can still come to stand for it."""

    __tablename__ = "other_attempts"
    __table_args__ = (
        CheckConstraint("state IN ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL')", "state"),
    )

    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    journal: Mapped[str] = mapped_column(primary_key=True)
    best_metrics: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """All metrics of `best_step`; in the row of a trial these are its dev scores."""


class OtherPointRecord(PointColumns, Base):
    """One point of the dev curve of such an attempt."""

    __tablename__ = "other_points"
    __table_args__ = (CheckConstraint("step >= 0", "step"),)

    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    journal: Mapped[str] = mapped_column(primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class EarlyEventRecord(Base):
    """An event on a trial that no journal has brought yet; it is applied when one does."""

    __tablename__ = "early_events"

    journal: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    trial: Mapped[str] = mapped_column(index=True)
    """Its key."""
    event: Mapped[str]
    """As JSON."""
