"""Stores sweeps, their starts and people's requests to them, and removes sweeps.

The rows of a sweep and of its trials go by cascade; trials that other sweeps hold too are kept.
"""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import delete, exists, func, literal, select, update
from sqlalchemy.orm import Session, aliased

from cse_platform.stores.sql.store import Store, server_time
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    EarlyEventRecord,
    EvaluationRecord,
    GroupRecord,
    JournalCursorRecord,
    MachineRecord,
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepStartRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
    in_batches,
    insert_once,
    sweep_of,
    sweep_or_none,
)
from cse_platform.stores.sql.trial_events import count_complete
from cse_platform.sweep.objectives import ConstraintText, SearchObjective
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import SweepRequested, SweepStarted
from cse_platform.tracking.history import stored_dev

_log = logging.getLogger(__name__)


def known_journals(session: Session) -> set[str]:
    """Return the ids of the journals from which the leaderboard has something."""
    return set(session.scalars(select(JournalCursorRecord.journal)))


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
        sweep.objectives = {goal.name: goal.direction for goal in objectives}
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


def remove_cursors(session: Session, journals: Collection[str]) -> None:
    """Delete the cursors of these journals."""
    session.execute(delete(JournalCursorRecord).where(JournalCursorRecord.journal.in_(journals)))


def remove_sweep(session: Session, name: str, journal: str) -> None:
    """Delete a sweep, the trials that no other sweep holds, and rows that nothing refers to then.

    Trials that are kept lose the GPU time that they took in this sweep. A sweep of the same name
    with another journal stays.
    """
    sweep = sweep_or_none(session, name)
    if sweep is not None and sweep.journal == journal:
        of_sweep = SweepTrialRecord.sweep_id == sweep.id
        held = session.execute(
            select(TrialRecord.id, TrialRecord.configuration_id)
            .join(TrialRecord.places)
            .where(of_sweep)
        ).all()
        session.execute(delete(TrialRecord).where(TrialRecord.id.in_(select_going(sweep.id))))
        session.execute(delete(SweepRecord).where(SweepRecord.id == sweep.id))
        session.expire_all()
        for batch in in_batches(held):
            _recount_trials(session, [row[0] for row in batch], {row[1] for row in batch})
        session.execute(delete(SweepRequestRecord).where(SweepRequestRecord.sweep == name))
    remove_cursors(session, {journal})
    session.execute(delete(EarlyEventRecord).where(EarlyEventRecord.journal == journal))
    users: list[tuple[Any, list[Any]]] = [
        (MachineRecord.id, [TrialRecord.machine_id]),
        (PairSetRecord.data_sha256, [PairSimilaritiesRecord.data_sha256]),
        (EvaluationRecord.identity, [ScoreRecord.identity, PairSimilaritiesRecord.identity]),
    ]
    for named, by in users:
        used = (named.not_in(select(column).where(column.is_not(None))) for column in by)
        session.execute(delete(named.class_).where(*used))


def find_needed_jobs(session: Session) -> set[str]:
    """Find the ids of the submitted jobs that last started sweeps which are not complete."""
    query = (
        select(SweepRecord.id, SweepStartRecord.provenance)
        .join(SweepRecord.starts)
        .where(SweepRecord.state != "COMPLETE")
        .order_by(SweepStartRecord.started)
    )
    last = {sweep: facts.get("job") for sweep, facts in session.execute(query)}
    return {job for job in last.values() if isinstance(job, str)}


def _recount_trials(
    session: Session, trials: Collection[int], configurations: Collection[int]
) -> None:
    """Recompute what was summed over trials, of which some are deleted, by configuration and group.

    Configurations and groups without trials are deleted.
    """
    total = func.coalesce(func.sum(SweepTrialRecord.gpu_seconds), 0.0)
    spent = select(total).where(SweepTrialRecord.trial_id == TrialRecord.id).scalar_subquery()
    session.execute(
        update(TrialRecord).where(TrialRecord.id.in_(trials)).values(gpu_seconds=spent),
        execution_options={"synchronize_session": False},
    )
    of_these = ConfigurationRecord.id.in_(configurations)
    groups = set(session.scalars(select(ConfigurationRecord.group_id).where(of_these)))
    tried = exists().where(TrialRecord.configuration_id == ConfigurationRecord.id)
    session.execute(delete(ConfigurationRecord).where(of_these, ~tried))
    count_complete(session, configurations)
    session.flush()
    for group in groups:
        columns = ConfigurationRecord.code, TrialRecord.started
        of_group = select(*columns).join(TrialRecord.configuration)
        of_group = of_group.where(ConfigurationRecord.group_id == group)
        sums = of_group.with_only_columns(func.count(), func.sum(TrialRecord.gpu_seconds))
        count, seconds = session.execute(sums).one()
        if not count:
            session.execute(delete(GroupRecord).where(GroupRecord.id == group))
            continue
        newest = of_group.order_by(TrialRecord.started.desc()).limit(1)
        record = session.get_one(GroupRecord, group)
        record.trials, record.gpu_seconds = count, seconds
        record.code, record.code_since = session.execute(newest).one()
        session.flush()


def select_going(sweep: int) -> Any:
    """Select the ids of a sweep's trials that no other sweep holds."""
    mine, other = SweepTrialRecord, aliased(SweepTrialRecord)
    shared = exists(literal(1)).where(
        other.trial_id == mine.trial_id, other.sweep_id != mine.sweep_id
    )
    return select(mine.trial_id).where(mine.sweep_id == sweep, ~shared.correlate(mine))
