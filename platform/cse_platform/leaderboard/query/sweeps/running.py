"""The trials of a sweep that have not ended."""

from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.sweeps.search_history import space_of
from cse_platform.leaderboard.query.trials.summary import select_trials, summarize
from cse_platform.leaderboard.store.tables import DevPointRecord, SweepTrialRecord, TrialRecord
from cse_platform.leaderboard.trial import TrialSummary

MOST_RUNNING = 50


def running_trials(session: Session, name: str) -> list[TrialSummary]:
    """The trials of a sweep that have not ended, the newest first, at most 50.

    Their `value` and `step` are of the last report; None before the first one.

    Raises:
        NotFoundError: if there is no such sweep.
    """
    sweep = find_sweep(session, name)
    space = space_of(sweep.spec)
    return [summarize(line, space) for line in session.execute(_running(sweep.id))]


def _running(sweep: int) -> Select[Any]:
    last = (
        select(func.max(DevPointRecord.step))
        .where(DevPointRecord.trial_id == TrialRecord.id)
        .correlate(TrialRecord)
        .scalar_subquery()
    )
    at_last = (DevPointRecord.trial_id == TrialRecord.id) & (DevPointRecord.step == last)
    return (
        select_trials(value=DevPointRecord.value, step=DevPointRecord.step)
        .outerjoin(DevPointRecord, at_last)
        .where(SweepTrialRecord.sweep_id == sweep, TrialRecord.state == "RUNNING")
        .order_by(SweepTrialRecord.number.desc())
        .limit(MOST_RUNNING)
    )
