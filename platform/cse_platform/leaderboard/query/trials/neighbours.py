"""The trials before and after one in its sweep, by number."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.store.tables import SweepTrialRecord, TrialRecord


@dataclass(frozen=True)
class Neighbour:
    """Another trial of the same sweep."""

    number: int
    key: str


def neighbours(
    session: Session, sweep: str, number: int
) -> tuple[Neighbour | None, Neighbour | None]:
    """The trial with the next lower and the one with the next higher number; None at an end.

    Raises:
        NotFoundError: if there is no such sweep.
    """
    held, place = find_sweep(session, sweep), SweepTrialRecord.number
    query = select(place, TrialRecord.key).join(SweepTrialRecord.trial)
    query = query.where(SweepTrialRecord.sweep_id == held.id).limit(1)
    before = session.execute(query.where(place < number).order_by(place.desc())).first()
    after = session.execute(query.where(place > number).order_by(place)).first()
    return (before and Neighbour(*before), after and Neighbour(*after))
