"""What says at a glance whether anything is new of a sweep: one row of each of three tables."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.sweeps.holders import holders
from cse_platform.leaderboard.query.sweeps.overviews import state_of
from cse_platform.leaderboard.store.tables import JournalCursorRecord, SweepRecord


@dataclass(frozen=True)
class SweepStamp:
    """Equal to an earlier one as long as nothing was heard of a sweep."""

    state: str
    """As in `SweepOverview`."""
    position: int
    """How far its journal has been applied."""


def sweep_stamps(session: Session, name: str | None = None) -> dict[str, SweepStamp]:
    """The stamp of each sweep by its name, or of the one of this name.

    Raises:
        NotFoundError: if there is none of that name.
    """
    columns = (SweepRecord.name, SweepRecord.state, JournalCursorRecord.position)
    query = select(*columns).outerjoin(
        JournalCursorRecord, JournalCursorRecord.journal == SweepRecord.journal
    )
    if name is not None:
        query = query.where(SweepRecord.id == find_sweep(session, name).id)
    held = holders(session, name)
    return {
        sweep: SweepStamp(state_of(state, held.get(sweep)), position or 0)
        for sweep, state, position in session.execute(query.order_by(SweepRecord.id))
    }
