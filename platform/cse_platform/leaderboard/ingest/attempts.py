"""Attempts at one trial by several journals: the trial shows its best attempt as a whole."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, inspect, literal, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.evaluations import (
    OWN_SCORES,
    drop_foreign_scores,
    own_metrics,
    replace_own_scores,
    write_own_scores,
)
from cse_platform.leaderboard.ingest.upserts import insert_missing, known_records
from cse_platform.leaderboard.tables import (
    ATTEMPT_COLUMNS,
    POINT_COLUMNS,
    Base,
    ConfigurationRecord,
    DevPointRecord,
    OtherAttemptRecord,
    OtherPointRecord,
    TrialRecord,
)


def count_complete(session: Session, configurations: Collection[int]) -> None:
    """Recompute counts, means and squared deviations (M2) of configurations over complete seeds.

    All values are read again, because they are few and the last digit of a running mean would
    depend on the order in which trials arrive.
    """
    ids = sorted(configurations)
    for start in range(0, len(ids), _BATCH):
        values: dict[int, list[float]] = {id_: [] for id_ in ids[start : start + _BATCH]}
        query = select(TrialRecord.configuration_id, TrialRecord.best_value).where(
            TrialRecord.configuration_id.in_(values), TrialRecord.state == "COMPLETE"
        )
        for id_, value in session.execute(query):
            if value is not None:
                values[id_].append(value)
        records = select(ConfigurationRecord).where(ConfigurationRecord.id.in_(values))
        for record in session.scalars(records):
            found = values[record.id]
            record.n = len(found)
            record.mean = mean = fsum(found) / len(found) if found else None
            record.m2 = 0.0 if mean is None else fsum((value - mean) ** 2 for value in found)


@dataclass
class Held:
    """What a transaction that applies many events writes at its end, or when it is needed."""

    points: dict[type[Base], list[dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    configurations: set[int] = field(default_factory=set)
    """Those whose complete trials are to be counted again."""


@contextmanager
def holding(session: Session) -> Iterator[None]:
    """Collect dev points and configurations to count until the end, and then write them."""
    session.info |= {Held: (held := Held()), OWN_SCORES: {}}
    with session.no_autoflush:  # whoever needs something flushed does so
        yield
    write_points(session)
    write_own_scores(session)
    count_complete(session, held.configurations)
    del session.info[Held], session.info[OWN_SCORES]


def put_points(session: Session, table: "PointTable", rows: Iterable[dict[str, Any]]) -> None:
    """Store dev points, at once or as `holding` says; the first value stored for a step stays."""
    held = session.info.get(Held, Held())
    held.points[table] += rows
    if Held not in session.info:
        _insert_points(session, held)


def write_points(session: Session) -> None:
    """Write the dev points that are held back, so that a query finds them."""
    if Held in session.info:
        _insert_points(session, session.info[Held])


def _insert_points(session: Session, held: Held) -> None:
    for table, rows in held.points.items():
        insert_missing(session, table, [key.name for key in inspect(table).primary_key], rows)
    held.points.clear()


Attempt = TrialRecord | OtherAttemptRecord
PointTable = type[DevPointRecord] | type[OtherPointRecord]
Rank = tuple[bool, int, int, float, str]

_BATCH = 500
"""Trials per query."""

_STATES = ("FAIL", "RUNNING", "PRUNED", "COMPLETE")


def rank(
    *,
    state: str,
    reached: int | None,
    started: datetime,
    finished: datetime | None,
    journal: str = "",
) -> Rank:
    """Rank an attempt: a trial shows the attempt with the highest rank.

    Complete attempts rank highest, then those with a later last step `reached`, then by state. Ties
    go to the attempt that was complete, or began, first.
    """
    complete = state == "COMPLETE"
    since = finished if complete and finished is not None else started
    last = -1 if reached is None else reached
    return complete, last, _STATES.index(state), -since.timestamp(), journal


def ranks(session: Session, trials: Sequence[TrialRecord]) -> dict[str, Rank]:
    """Rank the shown attempt of each trial, by the trial's key."""
    last = select(DevPointRecord.trial_id, func.max(DevPointRecord.step))
    ranked: dict[str, Rank] = {}
    for start in range(0, len(trials), _BATCH):
        batch = trials[start : start + _BATCH]
        of_some = DevPointRecord.trial_id.in_([trial.id for trial in batch])
        grouped = session.execute(last.where(of_some).group_by(DevPointRecord.trial_id))
        reached = {row[0]: row[1] for row in grouped}
        ranked |= {trial.key: _rank_attempt(trial, reached.get(trial.id)) for trial in batch}
    return ranked


def attempt_of(session: Session, trial: TrialRecord, journal: str, *, at: datetime) -> Attempt:
    """Return a journal's attempt at a trial; if there is none, add one that began at time `at`.

    An incomplete trial that is stored without a journal is assigned to the first journal that
    continues it.
    """
    if not trial.journal and trial.state != "COMPLETE":
        trial.journal = journal
    if trial.journal == journal:
        return trial
    attempt = session.get(OtherAttemptRecord, (trial.id, journal))
    if attempt is None:
        attempt = OtherAttemptRecord(
            trial_id=trial.id, journal=journal, state="RUNNING", started=at, provenance={}
        )
        session.add(attempt)
        session.flush()
        known_records(session).pop((OtherAttemptRecord, trial.id), None)
    return attempt


def begin(session: Session, attempt: Attempt, *, started: datetime | None) -> None:
    """Set an attempt to running. With `started`, it restarts from scratch: its dev points are
    deleted.
    """
    if started is not None:
        write_points(session)
        table, which = curve_of(attempt)
        session.execute(delete(table).where(*which))
        attempt.started, attempt.start_value = started, None
    attempt.state, attempt.finished, attempt.error, attempt.model = "RUNNING", None, None, None
    attempt.best_step, attempt.best_value, attempt.wall_seconds = None, None, None
    attempt.model_deleted, attempt.why, attempt.costs = None, None, {}


NO_OTHERS = "none"
"""What `known_records` has of the other attempts at a trial that is new in a transaction."""
_OTHERS = select(OtherAttemptRecord).where(OtherAttemptRecord.trial_id == bindparam("trial"))


def settle(session: Session, trial: TrialRecord) -> None:
    """Make a trial show the best of its attempts."""
    if known_records(session).get((OtherAttemptRecord, trial.id)) is NO_OTHERS:
        return
    others = session.scalars(_OTHERS, {"trial": trial.id}).all()
    if others:
        write_points(session)
        attempts: list[Attempt] = [trial, *others]
        best = max(
            attempts, key=lambda attempt: _rank_attempt(attempt, _find_last_step(session, attempt))
        )
        if isinstance(best, OtherAttemptRecord):
            _swap_attempts(session, trial, best)


def finish(session: Session, trial: TrialRecord, metrics: Mapping[str, float | None]) -> None:
    """If a trial is complete, store its dev scores and count it; `metrics` are those of its best
    step.
    """
    if trial.state == "COMPLETE":
        replace_own_scores(session, trial, metrics)
        if Held in session.info:
            session.info[Held].configurations.add(trial.configuration_id)
        else:
            count_complete(session, [trial.configuration_id])


def curve_of(attempt: Attempt) -> tuple[PointTable, list[ColumnElement[bool]]]:
    """Return the table of an attempt's dev points, and the conditions that select them."""
    if isinstance(attempt, TrialRecord):
        return DevPointRecord, [DevPointRecord.trial_id == attempt.id]
    point = OtherPointRecord
    return point, [point.trial_id == attempt.trial_id, point.journal == attempt.journal]


def finite_or_null(value: float | None) -> float | None:
    """Return None for a number that is not finite, as the store has no NaN or infinity."""
    return value if value is not None and math.isfinite(value) else None


def _find_last_step(session: Session, attempt: Attempt) -> int | None:
    """Find the last step that an attempt reported; None if there is none."""
    table, which = curve_of(attempt)
    return session.scalar(select(func.max(table.step)).where(*which))


def _rank_attempt(attempt: Attempt, reached: int | None) -> Rank:
    return rank(
        state=attempt.state,
        reached=reached,
        started=attempt.started,
        finished=attempt.finished,
        journal=attempt.journal,
    )


def _swap_attempts(session: Session, trial: TrialRecord, best: OtherAttemptRecord) -> None:
    """Make a trial show another of its attempts, and keep the one shown before as a hidden one."""
    outdone = {**_read_attempt_columns(trial), "best_metrics": own_metrics(session, trial)}
    if trial.state == "COMPLETE" and trial.best_value != best.best_value:
        drop_foreign_scores(session, trial)
    points = DevPointRecord.trial_id == trial.id
    session.execute(
        insert(OtherPointRecord).from_select(
            ["trial_id", "journal", *POINT_COLUMNS],
            select(
                DevPointRecord.trial_id,
                literal(trial.journal),
                *(getattr(DevPointRecord, name) for name in POINT_COLUMNS),
            ).where(points),
        )
    )
    session.execute(delete(DevPointRecord).where(points))
    table, which = curve_of(best)
    session.execute(
        insert(DevPointRecord).from_select(
            ["trial_id", *POINT_COLUMNS],
            select(table.trial_id, *(getattr(table, name) for name in POINT_COLUMNS)).where(*which),
        )
    )
    session.execute(delete(table).where(*which))
    session.delete(best)
    for name, value in _read_attempt_columns(best).items():
        setattr(trial, name, value)
    session.add(OtherAttemptRecord(trial_id=trial.id, **outdone))
    session.flush()
    finish(session, trial, best.best_metrics)


def _read_attempt_columns(attempt: Attempt) -> dict[str, Any]:
    return {name: getattr(attempt, name) for name in ATTEMPT_COLUMNS}
