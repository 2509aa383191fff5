"""The sweep of a name, and the number of its next trial."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.store.tables import SweepRecord, SweepTrialRecord
from cse_platform.sweep.reading.problems import did_you_mean


def sweep_or_none(session: Session, name: str) -> SweepRecord | None:
    """The sweep of that name, if there is one."""
    return session.scalars(select(SweepRecord).where(SweepRecord.name == name)).one_or_none()


def find_sweep(session: Session, name: str) -> SweepRecord:
    """The sweep of that name.

    Raises:
        NotFoundError: if there is none; names the nearest.
    """
    sweep = sweep_or_none(session, name)
    if sweep is not None:
        return sweep
    names = session.scalars(select(SweepRecord.name).order_by(SweepRecord.id)).all()
    if not names:
        raise NotFoundError(f"there is no sweep {name!r}: this leaderboard holds none yet")
    hint = did_you_mean(name, names) or f"; the last ones are {', '.join(names[-5:])}"
    raise NotFoundError(f"there is no sweep {name!r} on this leaderboard{hint}")


def count_sweeps(session: Session) -> int:
    """How many sweeps there are."""
    return session.scalar(select(func.count()).select_from(SweepRecord)) or 0


def next_number(session: Session, sweep: str) -> int:
    """The number that the next trial of a sweep gets; 0 where there is none of that name."""
    query = select(func.max(SweepTrialRecord.number)).join(SweepTrialRecord.sweep)
    last = session.scalar(query.where(SweepRecord.name == sweep))
    return 0 if last is None else last + 1
