"""Finds a sweep by its name, with its file and people's requests to it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.errors import NotFoundError
from cse_platform.stores.sql.tables import (
    SHARED_SWEEPS,
    JournalCursorRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepTrialRecord,
)
from cse_platform.sweep.problems import did_you_mean
from cse_platform.sweep.space.space import Space


def known_journals(session: Session) -> set[str]:
    """Return the ids of the journals from which the leaderboard has something."""
    return set(session.scalars(select(JournalCursorRecord.journal)))


def sweep_or_none(session: Session, name: str) -> SweepRecord | None:
    """Find the sweep of that name, or None; a shared session reads each sweep once."""
    known: dict[str, SweepRecord] = session.info.get(SHARED_SWEEPS, {})
    if name not in known:
        query = select(SweepRecord).where(SweepRecord.name == name)
        sweep = session.scalars(query).one_or_none()
        if sweep is None:
            return None
        known[name] = sweep
    return known[name]


def find_sweep(session: Session, name: str) -> SweepRecord:
    """Find the sweep of that name.

    Raises:
        NotFoundError: if there is none; suggests the nearest name.
    """
    sweep = sweep_or_none(session, name)
    if sweep is not None:
        return sweep
    names = session.scalars(select(SweepRecord.name).order_by(SweepRecord.id)).all()
    if not names:
        raise NotFoundError(f"there is no sweep {name!r}: this leaderboard holds none yet")
    hint = did_you_mean(name, names) or f"; the last ones are {', '.join(names[-5:])}"
    raise NotFoundError(f"there is no sweep {name!r} on this leaderboard{hint}")


def next_number(session: Session, sweep: str) -> int:
    """Return the number of the next trial of a sweep; 0 if there is no such sweep."""
    query = select(func.max(SweepTrialRecord.number)).join(SweepTrialRecord.sweep)
    last = session.scalar(query.where(SweepRecord.name == sweep))
    return 0 if last is None else last + 1


def space_of(spec: Mapping[str, Any]) -> Space:
    """Parse the search space of a sweep's stored file; empty if it cannot be parsed."""
    try:
        return Space.model_validate(spec.get("space") or {})
    except ValidationError:  # of another version
        return Space({})


@dataclass(frozen=True)
class SweepRequests:
    """The requests for one sweep."""

    waiting: tuple[str, ...] = ()
    """Actions of the requests that its driver has not taken yet, in the order in which they were
    made.
    """
    enqueued: int = 0
    """Number of configurations that were enqueued in addition to those of the search."""


def requests_by_sweep(session: Session) -> Mapping[str, SweepRequests]:
    """Read the requests of each sweep, by its name."""
    requests: dict[str, SweepRequests] = defaultdict(SweepRequests)
    for record in session.scalars(select(SweepRequestRecord).order_by(SweepRequestRecord.id)):
        known, action = requests[record.sweep], record.event["action"]
        if record.taken is None:
            requests[record.sweep] = replace(known, waiting=(*known.waiting, action))
        elif action == "enqueue":
            requests[record.sweep] = replace(known, enqueued=known.enqueued + 1)
    return requests
