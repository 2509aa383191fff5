"""What people ask of a sweep from elsewhere; its driver takes it into the journal."""

from collections.abc import Collection

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.holders import server_time
from cse_platform.leaderboard.store.driver_tables import SweepRequestRecord
from cse_platform.leaderboard.store.opening import Store
from cse_platform.tracking.events import SweepRequested


def add_request(leaderboard: Store, request: SweepRequested) -> None:
    """Leave a request for the driver of the sweep, the one that runs or the next one."""
    event = request.model_dump(mode="json")
    with leaderboard.writing() as session:
        session.add(SweepRequestRecord(sweep=request.sweep, event=event))


def waiting_requests(session: Session, sweep: str) -> dict[int, SweepRequested]:
    """What no driver has taken yet, in the order in which it was asked, by number."""
    query = select(SweepRequestRecord).where(
        SweepRequestRecord.sweep == sweep, SweepRequestRecord.taken.is_(None)
    )
    found = session.scalars(query.order_by(SweepRequestRecord.id))
    return {record.id: SweepRequested.model_validate(record.event) for record in found}


def note_taken(session: Session, numbers: Collection[int]) -> None:
    """The driver has these requests in its journal."""
    taken = update(SweepRequestRecord).where(SweepRequestRecord.id.in_(numbers))
    session.execute(taken.values(taken=server_time(session)))
