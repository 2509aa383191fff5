"""Events on trials that are not on the leaderboard yet: they wait for the journal that has them."""

import logging

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.upserts import insert_once
from cse_platform.leaderboard.store.contested_tables import EarlyEventRecord
from cse_platform.tracking.events import EVENT, Event, TestAccessed, TrialEvaluated, TrialReused

_log = logging.getLogger(__name__)


def hold_back(
    session: Session,
    journal: str,
    position: int,
    event: TrialReused | TestAccessed | TrialEvaluated,
) -> None:
    """Keep an event until its trial is here."""
    _log.warning("sweep %s: trial %s is not on this leaderboard yet", event.sweep, event.trial)
    place = {"journal": journal, "position": position}
    values = {"trial": event.trial, "event": event.model_dump_json()}
    insert_once(session, EarlyEventRecord, place, values)


def take_held_back(session: Session, trial: str) -> list[tuple[str, int, Event]]:
    """The events that wait for a trial, with their journals and positions; they wait no more."""
    of_trial = EarlyEventRecord.trial == trial
    query = select(EarlyEventRecord.journal, EarlyEventRecord.position, EarlyEventRecord.event)
    order = EarlyEventRecord.journal, EarlyEventRecord.position
    held = session.execute(query.where(of_trial).order_by(*order)).all()
    if held:
        session.execute(delete(EarlyEventRecord).where(of_trial))
    return [(row.journal, row.position, EVENT.validate_json(row.event)) for row in held]
