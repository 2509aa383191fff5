"""Requests that people make of a sweep from elsewhere; its driver takes them into the journal."""

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store import Store
from cse_platform.leaderboard.stored_sweeps import server_time
from cse_platform.leaderboard.tables import SweepRequestRecord
from cse_platform.tracking.events import SweepRequested


def add_request(leaderboard: Store, request: SweepRequested) -> None:
    """Leave a request for the driver of the sweep, the one that runs or the next one."""
    event = request.model_dump(mode="json")
    with leaderboard.writing() as session:
        session.add(SweepRequestRecord(sweep=request.sweep, event=event))


def waiting_requests(session: Session, sweep: str) -> tuple[list[SweepRequested], dict[int, str]]:
    """Read the requests that no driver has taken yet, in the order in which they were made.

    The second value has the requests that this version cannot read, by their numbers in the store:
    who asks for what. They wait for a driver of the version that they were made with.
    """
    query = select(SweepRequestRecord).where(
        SweepRequestRecord.sweep == sweep, SweepRequestRecord.taken.is_(None)
    )
    requests, unreadable = [], {}
    for record in session.scalars(query.order_by(SweepRequestRecord.id)):
        try:
            requests.append(SweepRequested.model_validate(record.event))
        except ValidationError:
            who, action = record.event.get("who"), record.event.get("action")
            unreadable[record.id] = f"{who} asks for {action!r}"
    return requests, unreadable


def take_request(session: Session, request: SweepRequested) -> None:
    """Mark a request as taken, because the driver has it in its journal.

    If another store got the request, none waits here.
    """
    query = select(SweepRequestRecord).where(
        SweepRequestRecord.sweep == request.sweep,
        SweepRequestRecord.event["request"].as_string() == request.request,
        SweepRequestRecord.taken.is_(None),
    )
    for record in session.scalars(query):
        record.taken = server_time(session)
