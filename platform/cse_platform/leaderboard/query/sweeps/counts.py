"""Counts over the trials of sweeps. Each is one query over all sweeps, or over one by its id."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from cse_platform.leaderboard.query.trials.summary import select_trials, summarize
from cse_platform.leaderboard.store.tables import (
    DevPointRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.leaderboard.trial import TrialSummary


@dataclass(frozen=True)
class News:
    """What was heard of a running sweep."""

    ended: int
    """Trials since its start."""
    last: datetime


def count_by_state(session: Session, sweep: int | None) -> dict[int, dict[str, int]]:
    """How many trials a sweep has in each state; states without a trial are left out."""
    query = (
        select(SweepTrialRecord.sweep_id, TrialRecord.state, func.count())
        .join(SweepTrialRecord.trial)
        .where(*_only(SweepTrialRecord.sweep_id, sweep))
        .group_by(SweepTrialRecord.sweep_id, TrialRecord.state)
    )
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for one, state, trials in session.execute(query):
        found[one][state] = trials
    return found


def best_trials(session: Session, sweep: int | None) -> dict[str, TrialSummary]:
    """By sweep, the complete trial with the highest dev score; the first of equal ones."""
    place, tried = aliased(SweepTrialRecord), aliased(TrialRecord)
    best = (
        select(place.trial_id)
        .join(tried, place.trial)
        .where(place.sweep_id == SweepRecord.id, tried.state == "COMPLETE")
        .order_by(tried.best_value.desc(), place.number)
        .limit(1)
        .correlate(SweepRecord)
        .scalar_subquery()
    )
    query = select_trials().where(SweepTrialRecord.trial_id == best, *_only(SweepRecord.id, sweep))
    return {one.sweep: one for one in map(summarize, session.execute(query))}


def news(session: Session, sweep: int, *, since: datetime) -> News:
    """What was heard of a sweep since it was started."""
    held = (
        select(func.max(TrialRecord.started))
        .join(TrialRecord.places)
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
