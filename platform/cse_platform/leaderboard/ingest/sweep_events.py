"""Stores that sweeps start and end. Of two journals of one sweep, the later start decides."""

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.ingest.upserts import insert_once, sweep_of
from cse_platform.leaderboard.store.tables import (
    DriverMessageRecord,
    SweepRecord,
    SweepStartRecord,
    SweepTagRecord,
)
from cse_platform.tracking.events import (
    DriverMessage,
    SearchEnded,
    SweepFinished,
    SweepRequested,
    SweepStarted,
)


def start_sweep(session: Session, journal: str, event: SweepStarted) -> None:
    """Store a sweep and its start; one that is resumed keeps the time of its first start."""
    first = event.model_dump(include={"method", "backbone", "spec"})
    first |= {"state": "RUNNING", "started": event.time, "journal": journal}
    insert_once(session, SweepRecord, {"name": event.sweep}, first)
    sweep = sweep_of(session, event.sweep)
    sweep.started = min(sweep.started, event.time)
    start = {"sweep_id": sweep.id, "started": event.time}
    facts = event.model_dump(include={"provenance", "packages", "diffs"})
    insert_once(session, SweepStartRecord, start, facts)
    last = select(func.max(SweepStartRecord.started)).where(SweepStartRecord.sweep_id == sweep.id)
    # A clock that was set back does not keep a journal from going on.
    if sweep.journal in ("", journal) or session.scalar(last) == event.time:
        if sweep.spec.get("search") != event.spec.get("search"):
            sweep.ended_by = None
        sweep.journal, sweep.spec = journal, event.spec
        sweep.state, sweep.finished = "RUNNING", None
        session.execute(delete(SweepTagRecord).where(SweepTagRecord.sweep_id == sweep.id))
        for tag in event.spec.get("tags", ()):
            insert_once(session, SweepTagRecord, {"sweep_id": sweep.id, "tag": tag}, {})


def holds_rehearsals(session: Session) -> bool | None:
    """Whether the sweeps of a store are rehearsals, made by --smoke; None where there is none.

    A store never holds both: numbers of a rehearsal mean nothing.
    """
    marked = SweepRecord.spec["smoke"].as_boolean().is_(True)
    count, rehearsed = session.execute(
        select(func.count(), func.count().filter(marked)).select_from(SweepRecord)
    ).one()
    return bool(rehearsed) if count else None


def add_message(session: Session, journal: str, position: int, event: DriverMessage) -> None:
    """Store what the driver has said, at this position of its journal."""
    said = event.model_dump(include={"time", "level", "text"})
    said["sweep_id"] = sweep_of(session, event.sweep).id
    insert_once(session, DriverMessageRecord, {"journal": journal, "position": position}, said)


def change_budget(session: Session, journal: str, event: SweepRequested) -> None:
    """Store how many trials a sweep takes from now on, unless another journal started it later."""
    sweep = sweep_of(session, event.sweep)
    if sweep.journal in ("", journal):
        sweep.spec, sweep.ended_by = event.with_budget(sweep.spec), None


def end_search(session: Session, journal: str, event: SearchEnded) -> None:
    """Store which budget ended the search, unless another journal started the sweep later."""
    sweep = sweep_of(session, event.sweep)
    if sweep.journal in ("", journal):
        sweep.ended_by = event.budget


def finish_sweep(session: Session, journal: str, event: SweepFinished) -> None:
    """Store the end of a sweep, unless another journal started it later."""
    sweep = sweep_of(session, event.sweep)
    if sweep.journal in ("", journal):
        sweep.state, sweep.finished = event.state, event.time
