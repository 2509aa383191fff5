"""The tables of scores: what an encoder scored, under which settings, and who opened the tests."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from cse_platform.leaderboard.store.base import Base, read_only
from cse_platform.leaderboard.store.tables import TrialRecord

FREE_METRICS = ("alignment", "effective_rank", "uniformity")
"""Those that can lie outside [-1, 1]."""


class ScoreRecord(Base):
    """One number of one finished trial on one task and split."""

    __tablename__ = "scores"
    __table_args__ = (
        CheckConstraint(f"metric IN {FREE_METRICS} OR value BETWEEN -1 AND 1", "fraction"),
    )

    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    task: Mapped[str] = mapped_column(primary_key=True)
    split: Mapped[str] = mapped_column(primary_key=True)
    metric: Mapped[str] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(primary_key=True)
    """Of the evaluation; of a trial's own dev scores it is that of the dev sets."""
    value: Mapped[float]
    measured: Mapped[datetime]


class EvaluationRecord(Base):
    """What an evaluation's identity is the hash of."""

    __tablename__ = "evaluations"

    identity: Mapped[str] = mapped_column(primary_key=True)
    settings: Mapped[dict[str, Any]]
    source: Mapped[str | None]
    """Of the data: builtin, hub, senteval or imported; None where it is not known."""


class PairSetRecord(Base):
    """The gold scores of the pairs of one task, kept once for all trials."""

    __tablename__ = "pair_sets"
    __table_args__ = (CheckConstraint("pairs > 0", "pairs"),)

    data_sha256: Mapped[str] = mapped_column(primary_key=True)
    task: Mapped[str]
    split: Mapped[str]
    pairs: Mapped[int]
    subsets: Mapped[dict[str, Any]]
    """Pairs of each subset, in order."""
    gold: Mapped[bytes]
    """zlib of little-endian float64."""


class PairSimilaritiesRecord(Base):
    """The cosines that a trial gives to the pairs of one task."""

    __tablename__ = "pair_similarities"

    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    task: Mapped[str] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(primary_key=True)
    data_sha256: Mapped[str] = mapped_column(ForeignKey("pair_sets.data_sha256"))
    cosines: Mapped[bytes]
    """zlib of little-endian float32."""

    trial: Mapped[TrialRecord] = read_only()
    pair_set: Mapped[PairSetRecord] = read_only()


class TestAccessRecord(Base):
    """The test sets were opened for a trial, whether or not a score came of it."""

    __tablename__ = "test_releases"
    __table_args__ = (
        UniqueConstraint("trial_id", "opened", "who"),
        CheckConstraint("source IN ('builtin', 'hub', 'senteval')", "source"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), index=True)
    opened: Mapped[datetime]
    who: Mapped[str]
    command: Mapped[str]
    tasks: Mapped[list[str]]
    source: Mapped[str]
