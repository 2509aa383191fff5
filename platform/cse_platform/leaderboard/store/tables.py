"""The tables of the leaderboard. They refuse nonsense, whoever writes.

Numbers are kept as measured: correlations are fractions, times are UTC, a NaN is NULL.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from cse_platform.leaderboard.store.attempt import AttemptColumns, PointColumns
from cse_platform.leaderboard.store.base import Base, read_only

if TYPE_CHECKING:
    from cse_platform.leaderboard.store.score_tables import ScoreRecord, TestAccessRecord


def _best_first_index(name: str, which: str) -> Index:
    """An index of those configurations of a group that meet a condition, by their dev means."""
    condition = text(which)
    columns = ("group_id", "mean", "hash")
    return Index(name, *columns, sqlite_where=condition, postgresql_where=condition)


class SweepRecord(Base):
    """One sweep file."""

    __tablename__ = "sweeps"
    __table_args__ = (CheckConstraint("state IN ('RUNNING', 'COMPLETE', 'INTERRUPTED')", "state"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    method: Mapped[str]
    backbone: Mapped[str]
    spec: Mapped[dict[str, Any]]
    state: Mapped[str]
    started: Mapped[datetime]
    finished: Mapped[datetime | None]
    ended_by: Mapped[str | None]
    """The budget that ended its search, in words, where it was not the number of trials."""
    journal: Mapped[str] = mapped_column(default="")
    """The one that has its last start: that decides the file and the state."""

    starts: Mapped[list["SweepStartRecord"]] = read_only(order_by="SweepStartRecord.started")
    tags: Mapped[list["SweepTagRecord"]] = read_only(order_by="SweepTagRecord.tag")
    places: Mapped[list["SweepTrialRecord"]] = read_only(order_by="SweepTrialRecord.number")


class SweepStartRecord(Base):
    """One start of a sweep: the code and the machine that its trials from then on ran with."""

    __tablename__ = "sweep_starts"

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"), primary_key=True)
    started: Mapped[datetime] = mapped_column(primary_key=True)
    provenance: Mapped[dict[str, Any]]
    packages: Mapped[dict[str, Any]]
    """Version of every installed distribution, by name."""
    diffs: Mapped[dict[str, Any]]
    """What the code differed by from its commit, by repository."""


class DriverMessageRecord(Base):
    """What a sweep's driver has said."""

    __tablename__ = "driver_messages"
    __table_args__ = (
        CheckConstraint("level IN ('note', 'warning', 'error')", "level"),
        Index("ix_driver_messages_newest", "sweep_id", "time"),
    )

    journal: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"))
    time: Mapped[datetime]
    level: Mapped[str]
    text: Mapped[str]


class SweepTagRecord(Base):
    """A tag that a sweep file gives to its sweep."""

    __tablename__ = "sweep_tags"

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"), primary_key=True)
    tag: Mapped[str] = mapped_column(primary_key=True, index=True)


class GroupRecord(Base):
    """What a leaderboard compares inside: all trials of a method, a backbone and its dev sets."""

    __tablename__ = "contests"
    __table_args__ = (
        UniqueConstraint("method", "backbone", "dev_identity"),
        CheckConstraint("trials >= 0 AND gpu_seconds >= 0", "effort"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    method: Mapped[str]
    backbone: Mapped[str]
    dev_identity: Mapped[str]
    dev_checkpoint: Mapped[str]
    dev_search: Mapped[str]
    dev_source: Mapped[str]
    code: Mapped[str | None]
    """Hash of the method's code that the newest trial ran by; None where it is not known."""
    code_since: Mapped[datetime | None]
    """When that trial was started."""
    trials: Mapped[int] = mapped_column(default=0)
    """Of any state."""
    gpu_seconds: Mapped[float] = mapped_column(default=0.0)
    """What these trials took, in seconds of whole GPUs."""

    configurations: Mapped[list["ConfigurationRecord"]] = read_only()


class ConfigurationRecord(Base):
    """One assignment of hyperparameters, and how it did over its complete seeds."""

    __tablename__ = "configurations"
    __table_args__ = (
        CheckConstraint("n >= 0 AND n <= trials AND m2 >= 0", "moments"),
        CheckConstraint("(n = 0) = (mean IS NULL)", "mean_of_something"),
        _best_first_index("ix_configurations_confirmed", "n > 1"),
        _best_first_index("ix_configurations_complete", "n > 0"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    group_id: Mapped[int] = mapped_column("contest_id", ForeignKey("contests.id"), key="group_id")
    hash: Mapped[str] = mapped_column(unique=True)
    revision: Mapped[int]
    code: Mapped[str | None]
    """Hash of the method's code; None where it is not known."""
    corpus: Mapped[str]
    values: Mapped[dict[str, Any]]
    searched: Mapped[list[str]]
    trials: Mapped[int] = mapped_column(default=0)
    """Trials of any state."""
    n: Mapped[int] = mapped_column(default=0)
    """Complete ones; `mean` and `m2` are over these."""
    mean: Mapped[float | None]
    m2: Mapped[float] = mapped_column(default=0.0)
    """Sum of squared distances to the mean."""
    gpu_seconds: Mapped[float] = mapped_column(default=0.0)
    """What its trials took."""

    group: Mapped[GroupRecord] = read_only()
    seeds: Mapped[list["TrialRecord"]] = read_only(order_by="TrialRecord.seed")


class MachineRecord(Base):
    """Where trials ran."""

    __tablename__ = "machines"
    __table_args__ = (UniqueConstraint("host", "hardware"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    host: Mapped[str]
    hardware: Mapped[str]
    """The GPU, or else the CPU, by its maker's name."""


class TrialRecord(AttemptColumns, Base):
    """One configuration with one seed, and the attempt that stands for it."""

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint("configuration_id", "seed"),
        CheckConstraint("state IN ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL')", "state"),
        CheckConstraint("state <> 'COMPLETE' OR best_value IS NOT NULL", "complete_has_a_value"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    configuration_id: Mapped[int] = mapped_column(ForeignKey("configurations.id"))
    seed: Mapped[int] = mapped_column(BigInteger)
    finished: Mapped[datetime | None] = mapped_column(index=True)
    machine_id: Mapped[int | None] = mapped_column(ForeignKey("machines.id"), index=True)
    gpu_seconds: Mapped[float] = mapped_column(default=0.0)
    """What all attempts took in all sweeps together."""

    configuration: Mapped[ConfigurationRecord] = read_only()
    machine: Mapped[MachineRecord | None] = read_only()
    places: Mapped[list["SweepTrialRecord"]] = read_only(order_by="SweepTrialRecord.sweep_id")
    points: Mapped[list["DevPointRecord"]] = read_only(order_by="DevPointRecord.step")
    scores: Mapped[list["ScoreRecord"]] = read_only()
    test_accesses: Mapped[list["TestAccessRecord"]] = read_only()


class SweepTrialRecord(Base):
    """Which sweep holds which trial; a complete trial can be in several."""

    __tablename__ = "sweep_trials"
    __table_args__ = (
        UniqueConstraint("sweep_id", "number"),
        CheckConstraint("role IN ('search', 'confirm', 'repeat')", "role"),
    )

    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id"), primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True, index=True)
    number: Mapped[int]
    role: Mapped[str]
    search_number: Mapped[int | None]
    gpu_seconds: Mapped[float] = mapped_column(default=0.0)
    """What it took in this sweep: wall seconds by its share of a GPU."""
    reused: Mapped[datetime | None]
    """When this sweep took it over; NULL where it ran here, or that is not known."""
    reused_from: Mapped[str | None]
    """The sweep that had completed it."""

    sweep: Mapped[SweepRecord] = read_only()
    trial: Mapped[TrialRecord] = read_only()


class DevPointRecord(PointColumns, Base):
    """One point of a trial's dev curve."""

    __tablename__ = "dev_points"
    __table_args__ = (CheckConstraint("step >= 0", "step"),)

    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class JournalCursorRecord(Base):
    """How far a journal has been applied."""

    __tablename__ = "journal_cursors"

    journal: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger)
