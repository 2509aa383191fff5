"""What an import asks before it writes."""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import SweepRecord, SweepTrialRecord, TrialRecord

_BATCH = 500
"""Keys in one query: databases limit its parameters."""


def stored_trials(session: Session, keys: Sequence[str]) -> dict[str, TrialRecord]:
    """Those of these trials that are on the leaderboard, by key."""
    found: dict[str, TrialRecord] = {}
    for start in range(0, len(keys), _BATCH):
        query = select(TrialRecord).where(TrialRecord.key.in_(keys[start : start + _BATCH]))
        found |= {trial.key: trial for trial in session.scalars(query)}
    return found


def next_number(session: Session, sweep: str) -> int:
    """The number that the next trial of a sweep gets; 0 where there is none of that name."""
    query = select(func.max(SweepTrialRecord.number)).join(SweepTrialRecord.sweep)
    last = session.scalar(query.where(SweepRecord.name == sweep))
    return 0 if last is None else last + 1
