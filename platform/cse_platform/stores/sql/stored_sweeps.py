"""Stores sweeps, their starts and people's requests to them."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from cse_platform.errors import StoreLostError
from cse_platform.stores.sql.store import Store, server_time
from cse_platform.stores.sql.tables import (
    JournalCursorRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepStartRecord,
    SweepTagRecord,
    SweepTrialRecord,
    insert_once,
    known_records,
    sweep_or_none,
)
from cse_platform.sweep.objectives import ConstraintText, SearchObjective
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import SweepRequested, SweepStarted
from cse_platform.tracking.history import stored_dev

_log = logging.getLogger(__name__)


def known_journals(session: Session) -> set[str]:
    """Return the ids of the journals from which the leaderboard has something."""
    return set(session.scalars(select(JournalCursorRecord.journal)))


def sweep_of(session: Session, name: str, journal: str) -> SweepRecord:
    """Find the sweep of that name, which belongs to the journal that started it first.

    Raises:
        StoreLostError: if it is not stored, or belongs to another journal.
    """
    known = known_records(session)
    sweep: SweepRecord | None = known.get((SweepRecord, name)) or sweep_or_none(session, name)
    if sweep is None:
        raise StoreLostError(f"the journal speaks of sweep {name!r} before it starts")
    if sweep.journal != journal:
        raise StoreLostError(f"sweep {name!r} has another journal")
    known[SweepRecord, name] = sweep
    return sweep


def next_number(session: Session, sweep: str) -> int:
    """Return the number of the next trial of a sweep; 0 if there is no such sweep."""
    query = select(func.max(SweepTrialRecord.number)).join(SweepTrialRecord.sweep)
    last = session.scalar(query.where(SweepRecord.name == sweep))
    return 0 if last is None else last + 1


def start_sweep(session: Session, journal: str, event: SweepStarted) -> None:
    """Store a sweep and its start; a resumed sweep keeps the time of its first start."""
    first = event.model_dump(include={"method", "backbone", "spec"})
    first |= {"state": "RUNNING", "started": event.time, "journal": journal}
    insert_once(session, SweepRecord, {"name": event.sweep}, first)
    sweep = sweep_of(session, event.sweep, journal)
    sweep.started = min(sweep.started, event.time)
    start = {"sweep_id": sweep.id, "started": event.time}
    facts = event.model_dump(include={"provenance", "packages", "diffs"})
    insert_once(session, SweepStartRecord, start, facts)
    if sweep.spec.get("search") != event.spec.get("search"):
        sweep.ended_by = None
    sweep.state, sweep.finished = "RUNNING", None
    sweep.launched = None if event.launch is None else event.launch.time
    set_spec(sweep, event.spec)
    session.execute(delete(SweepTagRecord).where(SweepTagRecord.sweep_id == sweep.id))
    for tag in event.spec.get("tags", ()):
        insert_once(session, SweepTagRecord, {"sweep_id": sweep.id, "tag": tag}, {})


_OBJECTIVES = TypeAdapter(tuple[SearchObjective, ...])
_CONSTRAINTS = TypeAdapter(tuple[ConstraintText, ...])


def set_spec(sweep: SweepRecord, spec: Mapping[str, Any]) -> None:
    """Store the file of a sweep, and what the views need to know of it.

    A file of another version, or of an imported sweep, tells what can be parsed of it.
    """
    search = spec.get("search") or {}
    sampler = search.get("sampler", "")
    sweep.spec, sweep.dev = dict(spec), stored_dev(spec).search_name
    sweep.sampler = str(sampler.get("kind", "") if isinstance(sampler, Mapping) else sampler)
    sweep.objectives, sweep.constraints = {}, []
    with suppress(ValidationError):
        objectives = _OBJECTIVES.validate_python(search.get("objectives") or ())
        sweep.constraints = list(_CONSTRAINTS.validate_python(search.get("constraints") or ()))
        sweep.objectives = {each.name: each.direction for each in objectives}
    sweep.planned, sweep.confirming, sweep.budget = None, 0, {}
    with suppress(ValidationError):
        known = SweepSpec.model_validate(spec)
        sweep.planned, sweep.confirming = known.planned, known.confirming
        sweep.budget = known.search.budget.model_dump(mode="json") if known.search.budget else {}


def holds_rehearsals(session: Session) -> bool | None:
    """Whether the sweeps of a store are rehearsals, made by --smoke; None if it has no sweep.

    A store never mixes the two, because the numbers of a rehearsal are meaningless.
    """
    marked = SweepRecord.spec["smoke"].as_boolean().is_(True)
    count, rehearsed = session.execute(
        select(func.count(), func.count().filter(marked)).select_from(SweepRecord)
    ).one()
    return bool(rehearsed) if count else None


def add_request(leaderboard: Store, request: SweepRequested) -> None:
    """Store a request for the driver of the sweep: the running one, or else the next one."""
    event = request.model_dump(mode="json")
    with leaderboard.writing() as session:
        session.add(SweepRequestRecord(sweep=request.sweep, event=event))


def waiting_requests(session: Session, sweep: str) -> list[SweepRequested]:
    """Read the requests that no driver has taken yet, in the order in which they were made.

    What this version cannot parse waits for a driver of the version that made it.
    """
    query = select(SweepRequestRecord).where(
        SweepRequestRecord.sweep == sweep, SweepRequestRecord.taken.is_(None)
    )
    requests = []
    for record in session.scalars(query.order_by(SweepRequestRecord.id)):
        try:
            requests.append(SweepRequested.model_validate(record.event))
        except ValidationError:
            _warn_unreadable(sweep, record.id)
    return requests


@cache  # once for each request
def _warn_unreadable(sweep: str, number: int) -> None:
    says = "request %s to sweep %s is of another version of cse-platform, whose driver it waits for"
    _log.warning(says, number, sweep)


def take_request(session: Session, request: SweepRequested) -> None:
    """Mark a request as taken, because the driver has written it to its journal.

    A request that was made in another store is added.
    """
    query = select(SweepRequestRecord).where(
        SweepRequestRecord.sweep == request.sweep,
        SweepRequestRecord.event["request"].as_string() == request.request,
    )
    record = session.scalars(query).first()
    if record is None:
        event = request.model_dump(mode="json")
        session.add(SweepRequestRecord(sweep=request.sweep, event=event, taken=request.time))
        session.flush()
    elif record.taken is None:
        record.taken = server_time(session)
