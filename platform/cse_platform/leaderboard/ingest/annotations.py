"""Stores what people write about trials, configurations and sweeps; the latest word stands."""

from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.annotation_tables import AnnotationRecord
from cse_platform.tracking.events import AnnotationWritten


def add_annotation(session: Session, event: AnnotationWritten) -> None:
    """Take over what an event changes, where nothing later is known; again changes nothing."""
    for change in event.changes:
        new = AnnotationRecord(
            about=event.about,
            name=event.name,
            field=change.field,
            word=change.word,
            text=change.text,
            stands=change.stands,
            who=event.who,
            time=event.time,
        )
        put_newest(session, new)


def put_newest(session: Session, new: AnnotationRecord) -> None:
    """Put a row in place of an earlier one."""
    key = new.about, new.name, new.field, new.word
    known = session.get(AnnotationRecord, key)
    if known is None or known.time < new.time:
        session.merge(new)
        session.flush()
