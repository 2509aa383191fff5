"""What the trials of sweeps add up to. Each is one query over all sweeps, or over one by its id."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from cse_platform.leaderboard.store.tables import (
    DevPointRecord,
    SweepRecord,
    SweepStartRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
)


@dataclass(frozen=True)
class BestTrial:
    """The complete trial with the highest dev score; the first of equal ones."""

    key: str
    number: int
    seed: int
    value: float
    """A fraction."""
    step: int | None


@dataclass(frozen=True)
class News:
    """What was heard of a running sweep."""

    ended: int
    """Trials since its start."""
    last: datetime


def trials_by_state(session: Session, sweep: int | None) -> dict[int, dict[str, int]]:
    """How many trials a sweep has in each state; states without a trial are left out."""
    query = (
        select(SweepTrialRecord.sweep_id, TrialRecord.state, func.count())
        .join(TrialRecord, TrialRecord.id == SweepTrialRecord.trial_id)
        .where(*_only(SweepTrialRecord.sweep_id, sweep))
        .group_by(SweepTrialRecord.sweep_id, TrialRecord.state)
    )
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for one, state, trials in session.execute(query):
        found[one][state] = trials
    return found


def last_starts(session: Session, sweep: int | None) -> dict[int, datetime]:
    """When each sweep was started last; those of which no start is known are left out."""
    query = (
        select(SweepStartRecord.sweep_id, func.max(SweepStartRecord.started))
        .where(*_only(SweepStartRecord.sweep_id, sweep))
        .group_by(SweepStartRecord.sweep_id)
    )
    return {line[0]: line[1] for line in session.execute(query)}


def tags(session: Session, sweep: int | None) -> dict[int, tuple[str, ...]]:
    """The words that its file puts on a sweep, in order of the alphabet."""
    query = select(SweepTagRecord).where(*_only(SweepTagRecord.sweep_id, sweep))
    found: dict[int, tuple[str, ...]] = defaultdict(tuple)
    for one in session.scalars(query.order_by(SweepTagRecord.tag)):
        found[one.sweep_id] += (one.tag,)
    return found


def best_trials(session: Session, sweep: int | None) -> dict[int, BestTrial]:
    """The best trial of each sweep that has a complete one."""
    best = (
        select(TrialRecord.id)
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == TrialRecord.id)
        .where(SweepTrialRecord.sweep_id == SweepRecord.id, TrialRecord.state == "COMPLETE")
        .order_by(TrialRecord.best_value.desc(), SweepTrialRecord.number)
        .limit(1)
        .correlate(SweepRecord)
        .scalar_subquery()
    )
    which = _only(SweepRecord.id, sweep)
    first = select(SweepRecord.id.label("sweep"), best.label("trial")).where(*which).subquery()
    in_it = (SweepTrialRecord.sweep_id == first.c.sweep) & (
        SweepTrialRecord.trial_id == first.c.trial
    )
    query = (
        select(
            first.c.sweep,
            TrialRecord.key,
            SweepTrialRecord.number,
            TrialRecord.seed,
            TrialRecord.best_value,
            TrialRecord.best_step,
        )
        .select_from(first)
        .join(TrialRecord, TrialRecord.id == first.c.trial)
        .join(SweepTrialRecord, in_it)
    )
    return {one: BestTrial(*trial) for one, *trial in session.execute(query)}


def news(session: Session, sweep: int, *, since: datetime) -> News:
    """What was heard of a sweep since it was started.

    Args:
        session: of an open leaderboard.
        sweep: its id.
        since: its last start.
    """
    held = (
        select(func.max(TrialRecord.started))
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == TrialRecord.id)
        .where(SweepTrialRecord.sweep_id == sweep)
    )
    ended, finished = session.execute(
        held.with_only_columns(func.count(), func.max(TrialRecord.finished)).where(
            TrialRecord.finished >= since
        )
    ).one()
    runs = held.where(TrialRecord.state == "RUNNING")
    of_running = DevPointRecord.trial_id.in_(runs.with_only_columns(TrialRecord.id))
    reported = session.scalar(select(func.max(DevPointRecord.reported_at)).where(of_running))
    times = (since, finished, session.scalar(runs), reported)
    return News(ended, max(time for time in times if time is not None))


def _only(column: InstrumentedAttribute[int], sweep: int | None) -> list[ColumnElement[bool]]:
    return [] if sweep is None else [column == sweep]
