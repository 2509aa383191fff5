"""Stores what an event of a sweep changes: its start, requests to it, and annotations."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from cse_platform.stores.sql import tables
from cse_platform.stores.sql.keyed_rows import (
    insert_once,
    insert_rows,
    refuse_other_journal,
    sweep_of,
)
from cse_platform.stores.sql.pending_writes import PendingWrites, select_tried
from cse_platform.stores.sql.store import server_time
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking import events
from cse_platform.tracking.history import CUT_OFF, stored_dev


def start_sweep(session: Session, journal: str, event: events.SweepStarted) -> None:
    """Store a sweep and its start; a resumed sweep keeps the time of its first start.

    Raises OtherSweepError if another journal has started a sweep of that name.
    """
    refuse_other_journal(session, tables.sweep_or_none(session, event.sweep), journal)
    first = event.model_dump(include={"method", "backbone", "spec"})
    first |= {"state": "RUNNING", "started": event.time, "journal": journal}
    insert_once(session, tables.SweepRecord, {"name": event.sweep}, first)
    sweep = sweep_of(session, event.sweep, journal)
    sweep.started = min(sweep.started, event.time)
    start = {"sweep_id": sweep.id, "started": event.time}
    facts = event.model_dump(include={"provenance", "packages", "diffs"})
    insert_once(session, tables.SweepStartRecord, start, facts)
    if sweep.spec.get("search") != event.spec.get("search"):
        sweep.ended_by = None
    sweep.state, sweep.finished = "RUNNING", None
    if not event.is_of_one_run:
        mark_cut_off(session, journal, sweep.id)
    sweep.launched = None if event.launch is None else event.launch.time
    before = sweep.confirms_all
    _set_spec(sweep, event.spec)
    pending: PendingWrites = session.info[PendingWrites]
    pending.sweeps.add(sweep.id)
    if sweep.confirms_all != before:  # other seeds estimate its configurations
        pending.configurations |= set(session.scalars(select_tried(sweep.id)))
    session.execute(delete(tables.SweepTagRecord).where(tables.SweepTagRecord.sweep_id == sweep.id))
    for tag in event.spec.get("tags", ()):
        insert_once(session, tables.SweepTagRecord, {"sweep_id": sweep.id, "tag": tag}, {})


def mark_cut_off(session: Session, journal: str, sweep: int) -> None:
    """Say of the trials of a sweep that have not ended that they wait to go on."""
    attempt, link = tables.AttemptRecord, tables.SweepTrialRecord
    in_sweep = attempt.trial_id.in_(select(link.trial_id).where(link.sweep_id == sweep))
    session.flush()
    unfinished = update(attempt).where(in_sweep, attempt.journal == journal)
    session.execute(unfinished.where(attempt.state == "RUNNING").values(why=CUT_OFF))


def _set_spec(sweep: tables.SweepRecord, spec: Mapping[str, Any]) -> None:
    """Store the file of a sweep, and what the views need to know of it.

    A file of another version, or of an imported sweep, tells what can be parsed of it.
    """
    search = spec.get("search") or {}
    sampler = search.get("sampler", "")
    sweep.spec, sweep.dev = dict(spec), stored_dev(spec).search_name
    sweep.sampler = str(sampler.get("kind", "") if isinstance(sampler, Mapping) else sampler)
    sweep.planned, sweep.confirming, sweep.budget = None, 0, {}
    sweep.confirms_all = False
    with suppress(ValidationError):
        known = SweepSpec.model_validate(spec)
        sweep.planned, sweep.confirming = known.planned, known.confirming
        sweep.confirms_all = known.confirmed > 0
        sweep.budget = known.search.budget.model_dump(mode="json") if known.search.budget else {}


def take_request(session: Session, request: events.SweepRequested) -> None:
    """Mark a request as taken, because the driver has written it to its journal.

    A request that was made in another store is added.
    """
    query = select(tables.SweepRequestRecord).where(
        tables.SweepRequestRecord.sweep == request.sweep,
        tables.SweepRequestRecord.event["request"].as_string() == request.request,
    )
    record = session.scalars(query).first()
    if record is None:
        event = request.model_dump(mode="json")
        session.add(tables.SweepRequestRecord(sweep=request.sweep, event=event, taken=request.time))
        session.flush()
    elif record.taken is None:
        record.taken = server_time(session)


def add_annotation(session: Session, event: events.AnnotationWritten) -> None:
    """Store the annotation changes of an event, except those for which a later change is stored.

    Storing an event twice changes nothing.
    """
    about = event.model_dump(include={"about", "name", "who", "time"})
    rows = [
        {**about, "field": kind, "word": word, "text": text, "stands": stands}
        for kind, word, text, stands in event.changes
    ]
    key = ("about", "name", "field", "word")
    insert_rows(session, tables.AnnotationRecord, key, rows, newer_by="time")
