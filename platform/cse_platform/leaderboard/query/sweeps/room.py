"""How many more trials a running sweep has room for within its budgets of time and of GPU-hours."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.forecast.pace import Pace
from cse_platform.leaderboard.store.tables import SweepTrialRecord, TrialRecord
from cse_platform.sweep.spec import SweepSpec


def room_left(
    session: Session, sweep: int, spec: SweepSpec, *, pace: float, now: datetime
) -> float | None:
    """Trials of the search within its budgets, and the further seeds; None without such budgets.

    `pace` is the time from the end of one trial to that of the next, in seconds. What a trial took
    of a GPU is taken from those that have ended.
    """
    budget = spec.search.budget
    if budget is None or budget.time is budget.gpu_hours is None:
        return None
    query = (
        select(
            SweepTrialRecord.role,
            SweepTrialRecord.gpu_seconds,
            TrialRecord.started,
            TrialRecord.finished,
        )
        .join(SweepTrialRecord.trial)
        .where(SweepTrialRecord.sweep_id == sweep, SweepTrialRecord.reused.is_(None))
    )
    rows = session.execute(query).all()
    searched = [row for row in rows if row.role != "confirm"]
    ended = [row.gpu_seconds for row in searched if row.finished is not None]
    gpu_seconds = sum(ended)
    room = Pace(pace, at_once=1, gpu=gpu_seconds / len(ended) / pace if ended else 0.0)
    within = room.trials_within(
        budget,
        count=None,
        seconds=_covered([(row.started, row.finished or now) for row in searched]),
        gpu_seconds=gpu_seconds,
    )
    if within is None:
        return None
    return within + max(spec.confirming - (len(rows) - len(searched)), 0)


def _covered(spans: list[tuple[datetime, datetime]]) -> float:
    """Seconds that lie in one of the spans, or in several."""
    total, until = 0.0, None
    for begin, end in sorted(spans):
        begin = begin if until is None else max(begin, until)
        if end > begin:
            total += (end - begin).total_seconds()
            until = end
    return total
