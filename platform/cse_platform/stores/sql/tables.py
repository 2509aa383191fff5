"""The tables of the leaderboard, with constraints that reject invalid rows from any writer.

All rows come from the journals, except the live state that several processes share: the leases of
sweeps (`SweepLeaseRecord`), and the requests that no driver has taken yet (`SweepRequestRecord`).
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    UniqueConstraint,
    select,
    text,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    InstrumentedAttribute,
    Mapped,
    Session,
    mapped_column,
    relationship,
)

from cse_platform.errors import NotFoundError
from cse_platform.stores.sql import column_types
from cse_platform.sweep.problems import did_you_mean

_Value = TypeVar("_Value")
BATCH = 1000
"""Values in one query; databases limit the number of its parameters."""


def in_batches(values: Sequence[_Value]) -> Iterator[Sequence[_Value]]:
    """Yield values in batches, each for one query."""
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]


NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The base of all tables."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {  # noqa: RUF012 -- SQLAlchemy reads it from the class
        int: column_types.WholeNumber(),
        float: column_types.Number(),
        str: column_types.Checked(),
        datetime: column_types.UtcTime(),
        dict[str, Any]: column_types.JsonObject(),
        list[str]: column_types.JsonList(),
    }


class SchemaRecord(Base):
    """The number of the schema that the tables have: one row."""

    __tablename__ = "cse_schema_version"

    number: Mapped[int] = mapped_column(  # in other schemas it may be a text
        "version_num", Integer, primary_key=True, autoincrement=False
    )


KeyOfSweep = Annotated[
    int, mapped_column(ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True)
]
KeyOfTrial = Annotated[
    int, mapped_column(ForeignKey("trials.id", ondelete="CASCADE"), primary_key=True)
]
KeyOfAttempt = Annotated[
    int, mapped_column(ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True)
]
"""Part of the key of rows that go with their sweep, trial or attempt."""


def read_only(**options: Any) -> Any:
    """Make a read-only relationship, for joins and eager loading in queries.

    Access raises an error unless the query has loaded it.
    """
    return relationship(viewonly=True, lazy="raise", **options)


class SweepRecord(Base):
    """A sweep: its file and its state."""

    __tablename__ = "sweeps"
    __table_args__ = (CheckConstraint("state IN ('RUNNING', 'COMPLETE', 'INTERRUPTED')", "state"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    method: Mapped[str]
    backbone: Mapped[str]
    spec: Mapped[dict[str, Any]]
    planned: Mapped[int | None]
    """The largest number of trials that its file allows, with further seeds; NULL if it is not
    limited, or the file is not known.
    """
    confirming: Mapped[int] = mapped_column(default=0)
    """The number of further seeds among these."""
    confirms_all: Mapped[bool] = mapped_column(default=False)
    """Whether every configuration of the search gets the further seeds."""
    budget: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """The budgets of its search, as in its file; empty if it has none."""
    sampler: Mapped[str] = mapped_column(default="")
    """Empty if unknown."""
    dev: Mapped[str] = mapped_column(default="stsb")
    """The dev set that the search climbs, or several, e.g. `stsb+sickr`."""
    state: Mapped[str]
    started: Mapped[datetime]
    finished: Mapped[datetime | None]
    launched: Mapped[datetime | None]
    """When the file of its last start was launched; NULL if unknown."""
    ended_by: Mapped[str | None]
    """The budget that ended its search, in words; NULL if that was the number of trials."""
    journal: Mapped[str]

    starts: Mapped[list["SweepStartRecord"]] = read_only(order_by="SweepStartRecord.started")
    tags: Mapped[list["SweepTagRecord"]] = read_only(order_by="SweepTagRecord.tag")
    links: Mapped[list["SweepTrialRecord"]] = read_only(order_by="SweepTrialRecord.number")


class SweepStartRecord(Base):
    """One start of a sweep, with the code and the machine of the trials that it ran."""

    __tablename__ = "sweep_starts"

    sweep_id: Mapped[KeyOfSweep]
    started: Mapped[datetime] = mapped_column(primary_key=True)
    provenance: Mapped[dict[str, Any]]
    packages: Mapped[dict[str, Any]]
    """Version of every installed distribution, by name."""
    diffs: Mapped[dict[str, Any]]
    """Diffs of the code against its commit, by repository."""


class DriverMessageRecord(Base):
    """A message of a sweep's driver."""

    __tablename__ = "driver_messages"
    __table_args__ = (
        CheckConstraint("level IN ('note', 'warning', 'error')", "level"),
        Index("ix_driver_messages_newest", "sweep_id", "time"),
    )

    journal: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(
        column_types.LongNumber, primary_key=True, autoincrement=False
    )
    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweeps.id", ondelete="CASCADE"))
    time: Mapped[datetime]
    level: Mapped[str]
    text: Mapped[str]


class SweepTagRecord(Base):
    """A tag in a sweep's file."""

    __tablename__ = "sweep_tags"

    sweep_id: Mapped[KeyOfSweep]
    tag: Mapped[str] = mapped_column(primary_key=True, index=True)


class GroupRecord(Base):
    """A group whose configurations compete: one method, one backbone, one dev identity."""

    __tablename__ = "groups"
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
    """Hash of the method's code that the newest trial with a value ran whose code is known; NULL if
    none is. One that failed does not count, as its code may be a mistake that was undone.
    """
    code_since: Mapped[datetime | None]
    """When that trial started."""
    trials: Mapped[int] = mapped_column(default=0)
    """The number of trials, of any state."""
    gpu_seconds: Mapped[float] = mapped_column(default=0.0)
    """GPU seconds of these trials, in whole GPUs."""

    configurations: Mapped[list["ConfigurationRecord"]] = read_only()


class ConfigurationRecord(Base):
    """One assignment of hyperparameters, and its results over complete seeds."""

    __tablename__ = "configurations"
    __table_args__ = (
        CheckConstraint("n >= 0", "n"),
        CheckConstraint("(n = 0) = (mean IS NULL)", "mean_of_something"),
        Index(  # the best of a group first; with `n`, so that a query need not look it up
            "ix_configurations_best",
            *("group_id", "standing", "mean", "hash", "n"),
            sqlite_where=text("n > 0"),
            postgresql_where=text("n > 0"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("groups.id"))
    hash: Mapped[str] = mapped_column(unique=True)
    revision: Mapped[int]
    code: Mapped[str | None]
    """Hash of the method's code; NULL if unknown."""
    corpus: Mapped[str]
    corpus_sha256: Mapped[str | None]
    """Hash of the corpus's sentences; NULL if unknown."""
    values: Mapped[dict[str, Any]]
    searched: Mapped[list[str]]
    n: Mapped[int] = mapped_column(default=0)
    """The number of complete seeds that count, which `mean` is over: those that did not choose it
    where there are at least two, otherwise all.
    """
    mean: Mapped[float | None]
    standing: Mapped[int] = mapped_column(default=0)
    """How well its seeds estimate it, by `counting_seeds.rate_seeds`."""

    group: Mapped[GroupRecord] = read_only()
    seeds: Mapped[list["TrialRecord"]] = read_only(order_by="TrialRecord.seed")


class MachineRecord(Base):
    """A machine on which trials ran."""

    __tablename__ = "machines"
    __table_args__ = (UniqueConstraint("host", "hardware"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    host: Mapped[str]
    hardware: Mapped[str]
    """The GPU, else the CPU, as its maker names it."""


_OF_SHOWN_MODEL = {
    "secondary": "attempts",
    "primaryjoin": (
        "and_(AttemptRecord.trial_id == TrialRecord.id, AttemptRecord.has_shown_model)"
    ),
}


class TrialRecord(Base):
    """One configuration with one seed."""

    __tablename__ = "trials"
    __table_args__ = (UniqueConstraint("configuration_id", "seed"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(unique=True)
    configuration_id: Mapped[int] = mapped_column(ForeignKey("configurations.id"))
    seed: Mapped[int] = mapped_column(column_types.LongNumber)
    gpu_seconds: Mapped[float] = mapped_column(default=0.0)
    """GPU seconds of all attempts in all sweeps."""
    shown_attempt: Mapped[int | None]
    """Id of the attempt that is shown, which `stores.sql.attempts` chooses at the end of each
    transaction. Attempts refer to their trials, so this is no foreign key.
    """

    configuration: Mapped[ConfigurationRecord] = read_only()
    links: Mapped[list["SweepTrialRecord"]] = read_only(order_by="SweepTrialRecord.sweep_id")
    # By both columns, so that a query can begin with the trial or with the attempt.
    shown: Mapped["AttemptRecord"] = read_only(
        primaryjoin="and_(foreign(TrialRecord.shown_attempt) == AttemptRecord.id,"
        " AttemptRecord.trial_id == TrialRecord.id)"
    )
    scores: Mapped[list["ScoreRecord"]] = read_only(
        **_OF_SHOWN_MODEL,
        secondaryjoin="ScoreRecord.attempt_id == AttemptRecord.id",
        order_by="ScoreRecord.measured",
    )
    examples: Mapped[list["ExampleValuesRecord"]] = read_only(
        **_OF_SHOWN_MODEL,
        secondaryjoin="ExampleValuesRecord.attempt_id == AttemptRecord.id",
    )
    """Scores and values by example of the model that is shown. Several journals can have one of
    equal identity, of which the last measured one counts.
    """
    test_accesses: Mapped[list["TestAccessRecord"]] = read_only()


class AttemptRecord(Base):
    """One journal's record of a trial.

    A journal that only has scores of the trial has a record without a state.
    """

    __tablename__ = "attempts"
    __table_args__ = (
        UniqueConstraint("trial_id", "journal"),
        CheckConstraint("state IN ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL')", "state"),
        CheckConstraint("state <> 'COMPLETE' OR best_value IS NOT NULL", "complete_has_a_value"),
        Index(
            "ix_attempts_failed",
            "cause",
            sqlite_where=text("cause IS NOT NULL"),
            postgresql_where=text("cause IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id", ondelete="CASCADE"))
    journal: Mapped[str]
    """Id of the journal."""
    state: Mapped[str] = mapped_column(nullable=True)
    started: Mapped[datetime] = mapped_column(nullable=True)
    """NULL, like `state`, in a record that only has scores, which is never shown."""
    reached: Mapped[int | None]
    """The last step of its dev curve; NULL if it has no point."""
    finished: Mapped[datetime | None] = mapped_column(index=True)
    best_step: Mapped[int | None]
    best_value: Mapped[float | None]
    start_value: Mapped[float | None]
    """The dev score at step 0, before training."""
    model: Mapped[str | None] = mapped_column(column_types.Location)
    model_deleted: Mapped[datetime | None]
    """When the sweep deleted its model to save disk space; `model` is then NULL."""
    error: Mapped[str | None]
    cause: Mapped[str | None]
    """Why it failed, as in `FailureCause`; NULL if it did not, or the cause is unknown."""
    why: Mapped[str | None]
    """Why it was stopped early, or does not run now; NULL if neither is so, or it is unknown."""
    wall_seconds: Mapped[float | None]
    costs: Mapped[dict[str, Any]] = mapped_column(default=dict)
    """Its costs by name; unknown ones are absent."""
    machine_id: Mapped[int | None] = mapped_column(ForeignKey("machines.id"), index=True)
    provenance: Mapped[dict[str, Any]] = mapped_column(default=dict)
    has_shown_model: Mapped[bool] = mapped_column(default=True)
    """Whether its scores are of the model that the trial shows: a complete attempt's are if it has
    the dev score of the shown one; other ones are of a model that the journal has from elsewhere.
    """

    trial: Mapped[TrialRecord] = read_only()
    machine: Mapped[MachineRecord | None] = read_only()
    points: Mapped[list["DevPointRecord"]] = read_only(order_by="DevPointRecord.step")


class SweepTrialRecord(Base):
    """The link of a trial to a sweep; several sweeps can hold a complete trial."""

    __tablename__ = "sweep_trials"
    __table_args__ = (
        UniqueConstraint("sweep_id", "number"),
        CheckConstraint("role IN ('search', 'confirm', 'repeat')", "role"),
    )

    sweep_id: Mapped[KeyOfSweep]
    trial_id: Mapped[KeyOfTrial] = mapped_column(index=True)
    number: Mapped[int]
    role: Mapped[str]
    chosen: Mapped[datetime | None]
    """When its configuration was chosen, or the search that proposed it: at the launch of the file,
    or when a person enqueued it. NULL if unknown, and for further seeds.
    """
    gpu_seconds: Mapped[float] = mapped_column(default=0.0)
    """GPU seconds in this sweep: wall seconds times its share of a GPU."""
    reused: Mapped[datetime | None]
    """When this sweep reused it; NULL if it ran in this sweep."""
    reused_from: Mapped[str | None]
    """The sweep that had completed it."""

    sweep: Mapped[SweepRecord] = read_only()
    trial: Mapped[TrialRecord] = read_only()


class DevPointRecord(Base):
    """One point of the dev curve of an attempt."""

    __tablename__ = "dev_points"
    __table_args__ = (CheckConstraint("step >= 0", "step"),)

    attempt_id: Mapped[KeyOfAttempt]
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    reported_at: Mapped[datetime]
    value: Mapped[float | None]
    metrics: Mapped[dict[str, Any]]


class JournalCursorRecord(Base):
    """The position up to which a journal has been applied."""

    __tablename__ = "journal_cursors"

    journal: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(column_types.LongNumber)


FREE_METRICS = ("alignment", "effective_rank", "uniformity")
"""Metrics that can lie outside [-1, 1]."""


class ScoreRecord(Base):
    """One score of a finished trial on a task and split, from one journal."""

    __tablename__ = "scores"
    __table_args__ = (
        CheckConstraint(f"metric IN {FREE_METRICS} OR value BETWEEN -1 AND 1", "fraction"),
    )

    attempt_id: Mapped[KeyOfAttempt]
    task: Mapped[str] = mapped_column(primary_key=True)
    split: Mapped[str] = mapped_column(primary_key=True)
    metric: Mapped[str] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(primary_key=True)
    """The identity of the evaluation; for a trial's own scores on the dev sets that choose, that of
    these sets, and for those on others, which it does not cover, nothing.
    """
    value: Mapped[float]
    measured: Mapped[datetime]
    place: Mapped[int] = mapped_column(default=0)
    """Its place among the scores of its evaluation, which are in the order of the tasks."""


class EvaluationRecord(Base):
    """The settings of an evaluation, whose hash is its identity."""

    __tablename__ = "evaluations"

    identity: Mapped[str] = mapped_column(primary_key=True)
    settings: Mapped[dict[str, Any]]
    source: Mapped[str | None]
    """The source of the data: builtin, hub, senteval, file or imported; NULL if unknown."""


class ExampleSetRecord(Base):
    """The gold scores of the examples of a task, stored once for all trials."""

    __tablename__ = "example_sets"
    __table_args__ = (CheckConstraint("examples > 0", "examples"),)

    data_sha256: Mapped[str] = mapped_column(primary_key=True)
    task: Mapped[str]
    split: Mapped[str]
    examples: Mapped[int]
    subsets: Mapped[dict[str, Any]]
    """The number of examples of each subset, in order."""
    gold: Mapped[bytes | None]
    """zlib of little-endian float64; NULL for a mean."""


class ExampleValuesRecord(Base):
    """The values of a trial's score on one task by example, from one journal."""

    __tablename__ = "example_values"
    __table_args__ = (
        CheckConstraint("statistic IN ('mean', 'spearman', 'average_precision')", "statistic"),
    )

    attempt_id: Mapped[KeyOfAttempt]
    task: Mapped[str] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(primary_key=True)
    data_sha256: Mapped[str] = mapped_column(ForeignKey("example_sets.data_sha256"))
    statistic: Mapped[str]
    """What makes the score of the values."""
    packed: Mapped[bytes]
    """The values: zlib of little-endian float32."""
    measured: Mapped[datetime]

    example_set: Mapped[ExampleSetRecord] = read_only()


class TestAccessRecord(Base):
    """One opening of test sets for a trial, whether or not it led to a score."""

    __tablename__ = "test_accesses"
    __table_args__ = (
        UniqueConstraint("trial_id", "opened", "who", "source"),
        CheckConstraint("source IN ('builtin', 'hub', 'senteval', 'file')", "source"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id", ondelete="CASCADE"), index=True)
    opened: Mapped[datetime]
    who: Mapped[str]
    command: Mapped[str]
    tasks: Mapped[list[str]]
    source: Mapped[str]


class EarlyEventRecord(Base):
    """An event about a trial that is not stored yet; it is applied when the trial starts.

    The reuse of a trial is applied when the trial is complete.
    """

    __tablename__ = "early_events"

    journal: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(
        column_types.LongNumber, primary_key=True, autoincrement=False
    )
    trial: Mapped[str] = mapped_column(index=True)
    event: Mapped[str]
    """As JSON."""


class SweepLeaseRecord(Base):
    """The driver that holds a sweep, or held it last. Times are those of the database server."""

    __tablename__ = "sweep_leases"

    sweep: Mapped[str] = mapped_column(primary_key=True)
    """The sweep's name, because a lease is taken before the sweep has a row."""
    holder: Mapped[str | None]
    """A secret token of the driver; NULL once it has released the sweep."""
    journal: Mapped[str]
    """Id of the journal that the sweep continues from."""
    folder: Mapped[str] = mapped_column(column_types.Location)
    """The folder of the journal on the host."""
    host: Mapped[str]
    machine: Mapped[str]
    """Equal if a PID refers to the same process on both sides; a host name does not ensure that."""
    pid: Mapped[int]
    since: Mapped[datetime]
    heartbeat: Mapped[datetime]


class SweepRequestRecord(Base):
    """A person's request for a sweep, stored until its driver writes it to the journal."""

    __tablename__ = "sweep_requests"

    id: Mapped[int] = mapped_column(primary_key=True)
    sweep: Mapped[str] = mapped_column(index=True)
    event: Mapped[dict[str, Any]]
    """The event for the journal."""
    taken: Mapped[datetime | None]
    """When it was applied from the driver's journal; NULL before."""


class AnnotationRecord(Base):
    """A note, a star or a tag, as it was last written.

    It has no foreign keys, so that a trial or sweep that is stored again from its journal has its
    annotations at once.
    """

    __tablename__ = "annotations"
    __table_args__ = (
        CheckConstraint("about IN ('trial', 'configuration', 'sweep')", "about"),
        CheckConstraint("field IN ('note', 'star', 'tag')", "field"),
    )

    about: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    """A trial's key, a configuration's hash or a sweep's name."""
    field: Mapped[str] = mapped_column(primary_key=True)
    word: Mapped[str] = mapped_column(primary_key=True)
    """The tag; empty for a note or a star."""
    text: Mapped[str]
    stands: Mapped[bool]
    """False if it was removed. The row is kept, so that an older copy cannot restore the
    annotation.
    """
    who: Mapped[str]
    time: Mapped[datetime]


def begins_with(column: InstrumentedAttribute[str], digits: str) -> ColumnElement[bool]:
    """Match keys or hashes that start with these digits, as a range that can use an index.

    LIKE cannot use the index in SQLite, nor with most collations in PostgreSQL.
    """
    digits = digits.lower()
    return (column >= digits) & (column < f"{digits}g")  # hexadecimal digits end with f


def known_records(session: Session) -> dict[tuple[Any, ...], Any]:
    """Return the records that a session has found, by table and key, so that it asks once."""
    known: dict[tuple[Any, ...], Any] = session.info.setdefault("records", {})
    return known


def sweep_or_none(session: Session, name: str) -> SweepRecord | None:
    """Find the sweep of that name, or None; a session reads each sweep once."""
    known = known_records(session)
    sweep: SweepRecord | None = known.get((SweepRecord, name))
    if sweep is None:
        query = select(SweepRecord).where(SweepRecord.name == name)
        if (sweep := session.scalars(query).one_or_none()) is not None:
            known[SweepRecord, name] = sweep
    return sweep


def find_sweep(session: Session, name: str) -> SweepRecord:
    """Find the sweep of that name. Raises NotFoundError, which suggests the nearest, if none is."""
    sweep = sweep_or_none(session, name)
    if sweep is not None:
        return sweep
    names = session.scalars(select(SweepRecord.name).order_by(SweepRecord.id)).all()
    if not names:
        raise NotFoundError(f"there is no sweep {name!r}: this leaderboard has none yet")
    hint = (
        did_you_mean(re.sub(r"(.*/)?(.+)\.ya?ml", r"\2", name), names)
        or f"; the last ones are {', '.join(names[-5:])}"
    )
    raise NotFoundError(f"there is no sweep {name!r} on this leaderboard{hint}")
