"""Counts over the trials of sweeps: how many are in each state, and which is the best."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ScalarSelect, func, select
from sqlalchemy.orm import Session, aliased

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


def count_by_state(session: Session, sweeps: Sequence[int]) -> dict[int, dict[str, int]]:
    """How many trials each of these sweeps has in each state; states without a trial are absent."""
    query = (
        select(SweepTrialRecord.sweep_id, TrialRecord.state, func.count())
        .join(SweepTrialRecord.trial)
        .where(SweepTrialRecord.sweep_id.in_(sweeps))
        .group_by(SweepTrialRecord.sweep_id, TrialRecord.state)
    )
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for sweep, state, trials in session.execute(query):
        counts[sweep][state] = trials
    return counts


def best_trials(session: Session, sweeps: Sequence[int]) -> dict[str, TrialSummary]:
    """The complete trial with the highest dev score of each of these sweeps, by the sweep's name.

    Of equal trials it is the first.
    """
    query = select(SweepRecord.name, _best_of_sweep()).where(SweepRecord.id.in_(sweeps))
    best = {name: key for name, key in session.execute(query) if key is not None}
    lines = session.execute(select_trials().where(TrialRecord.key.in_(set(best.values()))))
    return {line.sweep: summarize(line) for line in lines if best.get(line.sweep) == line.key}


def _best_of_sweep() -> ScalarSelect[str | None]:
    """The key of a sweep's best complete trial; NULL where it has none.

    SQLite does not reorder an outer join. So it reads the sweep's own trials and looks each of them
    up, whatever statistics it has; an inner join without statistics makes it scan all sweeps.
    """
    held, trial = aliased(SweepTrialRecord), aliased(TrialRecord)
    return (
        select(trial.key)
        .select_from(held)
        .outerjoin(trial, (trial.id == held.trial_id) & (trial.state == "COMPLETE"))
        .where(held.sweep_id == SweepRecord.id)
        .order_by(trial.best_value.desc().nulls_last(), held.number)
        .limit(1)
        .correlate(SweepRecord)
        .scalar_subquery()
    )


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
