"""Stores the events of journals in the tables of the leaderboard: what each event changes.

First the event of a sweep, then those of trials; each trial's go to the attempt of their journal.
"""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Select, bindparam, delete, or_, select, update
from sqlalchemy.orm import Session

from cse_methods.data.dev_selection import dev_metric, sets_in
from cse_methods.task_reference import is_reference
from cse_methods.tasks import TRANSFER_TASKS
from cse_platform.counting_seeds import RIVALS
from cse_platform.errors import StoreLostError
from cse_platform.secrets import mask_text
from cse_platform.stores.sql import tables
from cse_platform.stores.sql.attempts import show_best_attempts
from cse_platform.stores.sql.estimates import estimate_configurations
from cse_platform.stores.sql.keyed_rows import (
    attempts_of,
    find_attempts,
    insert_new,
    insert_once,
    insert_record,
    insert_records,
    insert_rows,
    is_complete,
    refuse_other_journal,
    sweep_of,
    take_new,
    trial_of,
    trial_or_none,
    trials_of,
)
from cse_platform.stores.sql.store import Store, server_time
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking import events
from cse_platform.tracking.history import CUT_OFF, stored_confirmed, stored_dev
from cse_platform.tracking.packing import compress_examples

_log = logging.getLogger(__name__)


CONTRADICTIONS = (StoreLostError, LookupError, TypeError, ValueError, OverflowError)
"""Errors raised by an event that contradicts the store; a retry would fail again."""


def apply_event(session: Session, journal: str, position: int, event: events.Event) -> None:
    """Store an event at a position of a journal.

    An event about a trial that is not stored yet is held back until the trial starts, and the reuse
    of one that is not complete until it is.
    """
    if isinstance(
        event, events.TrialReused | events.TestAccessed | events.TrialEvaluated
    ) and _store_if_early(session, journal, position, event):
        return
    match event:
        case events.SweepStarted():
            start_sweep(session, journal, event)
        case events.SweepFinished():
            sweep = sweep_of(session, event.sweep, journal)
            sweep.state, sweep.finished = event.state, event.time
            _mark_cut_off(session, journal, sweep.id)
        case events.DriverMessage():
            message = event.model_dump(include={"time", "level", "text"})
            message["sweep_id"] = sweep_of(session, event.sweep, journal).id
            key = {"journal": journal, "position": position}
            insert_once(session, tables.DriverMessageRecord, key, message)
        case events.SearchEnded():
            sweep_of(session, event.sweep, journal).ended_by = event.budget
        case events.SweepRequested():
            take_request(session, event)
        case events.AnnotationWritten():
            add_annotation(session, event)
        case events.TrialStarted():
            if start_trial(session, journal, event):
                _apply_early_events(session, event.trial)
        case events.TrialPoint():
            add_points(session, journal, [event])
        case events.TrialFinished():
            finish_trial(session, journal, event)
            if event.state == "COMPLETE":
                _apply_early_events(session, event.trial)
        case events.ModelDeleted():
            trial = trial_of(session, event.trial)
            for attempt in find_attempts(session, journal, [trial]).values():
                attempt.model, attempt.model_deleted = None, event.time
        case events.TrialReused():
            link(session, journal, event, trial_of(session, event.trial))
        case events.TestAccessed():
            access = event.model_dump(include={"who", "source"}) | {"opened": event.time}
            access["trial_id"] = trial_of(session, event.trial).id
            details = {"command": event.command, "tasks": list(event.tasks)}
            insert_once(session, tables.TestAccessRecord, access, details)
        case events.TrialEvaluated():
            add_evaluation(session, journal, event)


def store_reused_trials(leaderboard: Store) -> None:
    """Complete the trials that journals reuse and none has completed, because that one is gone."""
    with leaderboard.writing() as session, collect_writes(session):
        early = session.execute(
            select(tables.EarlyEventRecord.journal, tables.EarlyEventRecord.event)
        ).all()
        entries = [(journal, events.EVENT.validate_json(text)) for journal, text in early]
        for journal, event in sorted(entries, key=lambda entry: entry[1].time):
            if not isinstance(event, events.TrialReused):
                continue
            trial = trial_or_none(session, event.trial)
            if trial is None or not is_complete(session, trial):
                store_reused(session, journal, event)
                _apply_early_events(session, event.trial)


def find_waiting(leaderboard: Store) -> dict[str, list[str]]:
    """Find the trials for which events are held back, by the sweep that the events name."""
    waiting = defaultdict[str, set[str]](set)
    with leaderboard.session() as session:
        for early in session.scalars(select(tables.EarlyEventRecord)):
            waiting[events.EVENT.validate_json(early.event).sweep].add(early.trial)
    return {sweep: sorted(trials) for sweep, trials in sorted(waiting.items())}


def _trials_with_early_events(session: Session) -> set[str]:
    """Return the keys of the trials for which events are held back; a session asks once."""
    known = tables.known_records(session)
    if (tables.EarlyEventRecord,) not in known:
        known[tables.EarlyEventRecord,] = {
            *session.scalars(select(tables.EarlyEventRecord.trial).distinct())
        }
    keys: set[str] = known[tables.EarlyEventRecord,]
    return keys


def _apply_early_events(session: Session, key: str) -> None:
    """Apply the events that are held back for a trial, and no longer have to be.

    Those that contradict the store are skipped and logged.
    """
    if key not in _trials_with_early_events(session):
        return
    trial, of_trial = trial_of(session, key), tables.EarlyEventRecord.trial == key
    order = tables.EarlyEventRecord.journal, tables.EarlyEventRecord.position
    for early in session.scalars(
        select(tables.EarlyEventRecord).where(of_trial).order_by(*order)
    ).all():
        event = events.EVENT.validate_json(early.event)
        if isinstance(event, events.TrialReused) and not is_complete(session, trial):
            continue
        session.delete(early)
        try:
            with session.begin_nested():
                apply_event(session, early.journal, early.position, event)
        except CONTRADICTIONS as error:
            if isinstance(event, events.TestAccessed):
                raise
            reason = mask_text(str(error) or repr(error))
            _log.warning("sweep %s: a %s is left out: %s", event.sweep, event.kind, reason)


def _store_if_early(
    session: Session,
    journal: str,
    position: int,
    event: events.TrialReused | events.TestAccessed | events.TrialEvaluated,
) -> bool:
    """Hold an event back until its trial is stored, or complete if the event reuses it.

    Returns whether it is held back.
    """
    trial, reuses = trial_or_none(session, event.trial), isinstance(event, events.TrialReused)
    if trial is not None and not (reuses and not is_complete(session, trial)):
        return False
    early, says = _trials_with_early_events(session), "is not complete on this leaderboard yet"
    if not reuses:
        says = "is not on this leaderboard, so its scores wait for its runs folder"
    if event.trial not in early:
        pending: PendingWrites = session.info[PendingWrites]
        pending.waits.append(f"sweep {event.sweep}: trial {event.trial} {says}")
    key = {"journal": journal, "position": position}
    values = {"trial": event.trial, "event": event.model_dump_json()}
    insert_once(session, tables.EarlyEventRecord, key, values)
    early.add(event.trial)
    return True


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
    _mark_cut_off(session, journal, sweep.id)
    sweep.launched = None if event.launch is None else event.launch.time
    before = sweep.confirms_all
    set_spec(sweep, event.spec)
    pending: PendingWrites = session.info[PendingWrites]
    pending.sweeps.add(sweep.id)
    if sweep.confirms_all != before:  # other seeds estimate its configurations
        pending.configurations |= set(session.scalars(_select_tried(sweep.id)))
    session.execute(delete(tables.SweepTagRecord).where(tables.SweepTagRecord.sweep_id == sweep.id))
    for tag in event.spec.get("tags", ()):
        insert_once(session, tables.SweepTagRecord, {"sweep_id": sweep.id, "tag": tag}, {})


def _mark_cut_off(session: Session, journal: str, sweep: int) -> None:
    """Say of the trials of a sweep that have not ended that they wait to go on."""
    attempt, link = tables.AttemptRecord, tables.SweepTrialRecord
    in_sweep = attempt.trial_id.in_(select(link.trial_id).where(link.sweep_id == sweep))
    session.flush()
    unfinished = update(attempt).where(in_sweep, attempt.journal == journal)
    session.execute(unfinished.where(attempt.state == "RUNNING").values(why=CUT_OFF))


def set_spec(sweep: tables.SweepRecord, spec: Mapping[str, Any]) -> None:
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


@dataclass
class PendingWrites:
    """The rows and decisions that a transaction of events leaves to its end."""

    points: list[dict[str, Any]] = field(default_factory=list)
    """The rows of dev points; the first value for a step stays."""
    own_scores: list[dict[str, Any]] = field(default_factory=list)
    """The rows of the dev scores of complete attempts."""
    trials: set[int] = field(default_factory=set)
    """Those whose attempts or links have changed, by id."""
    configurations: set[int] = field(default_factory=set)
    """Those whose estimates are to be computed again."""
    sweeps: set[int] = field(default_factory=set)
    """Those that have started, by id."""
    waits: list[str] = field(default_factory=list)
    """A sentence on each trial for which events are held back from now on."""


@contextmanager
def collect_writes(session: Session) -> Iterator[PendingWrites]:
    """Collect what events leave to the end, and write it there, with what follows from it."""
    pending = session.info[PendingWrites] = PendingWrites()
    with session.no_autoflush:  # whoever needs something flushed does so
        yield pending
    _write_points(session)
    insert_rows(session, tables.ScoreRecord, SCORE_KEY, pending.own_scores, newer_by="measured")
    show_best_attempts(session, pending.trials)
    changed = _find_changed_searches(session, pending.trials)
    for sweep in pending.sweeps | changed.keys():
        # The values of all trials of a search choose once two configurations have one.
        most = len(changed.get(sweep, ())) + 1
        compared = set(session.scalars(_select_compared(sweep).limit(most + 1)))
        if len(compared) <= most:
            pending.configurations |= compared
        pending.configurations |= _find_more_than_confirmed(session, sweep)
    estimate_configurations(session, pending.configurations)
    del session.info[PendingWrites]


def _find_changed_searches(session: Session, trials: Collection[int]) -> dict[int, set[int]]:
    """Find the sweeps that these trials are searched in, with their configurations."""
    link, changed = tables.SweepTrialRecord, defaultdict[int, set[int]](set)
    query = select(link.sweep_id, tables.TrialRecord.configuration_id).join(link.trial)
    for ids in tables.in_batches(sorted(trials)):
        for sweep, configuration in session.execute(query.where(_SEARCHED, link.trial_id.in_(ids))):
            changed[sweep].add(configuration)
    return changed


def _find_more_than_confirmed(session: Session, sweep: int) -> set[int]:
    """Find the configurations of a search that was to confirm all, and has tried more than that.

    A person has added one, or the budget was lowered. Then values choose, and the sweep says so.
    """
    record = session.get_one(tables.SweepRecord, sweep)
    if not record.confirms_all:
        return set()
    tried = set(session.scalars(_select_tried(sweep, _SEARCHED)))
    if len(tried) <= stored_confirmed(record.spec):
        return set()
    record.confirms_all = False
    session.flush()
    return tried


_SEARCHED = tables.SweepTrialRecord.role != "confirm"


def _select_tried(sweep: int, *conditions: Any) -> Select[int]:
    """Select the configurations of a sweep's trials that match all conditions, by id."""
    query = select(tables.TrialRecord.configuration_id).join(tables.TrialRecord.links).distinct()
    return query.where(tables.SweepTrialRecord.sweep_id == sweep, *conditions)


def _select_compared(sweep: int) -> Select[int]:
    """Select the configurations of which a search has a value to compare."""
    compared = tables.AttemptRecord.state.in_(RIVALS)
    return _select_tried(sweep, _SEARCHED, compared).join(tables.TrialRecord.shown)


def store_starts(session: Session, journal: str, starts: Sequence[events.TrialStarted]) -> None:
    """Store the configurations, trials, attempts and links of a journal's starts, in few
    statements.

    A link whose trial or number the sweep has already is left to `start_trial`.
    """
    configurations: dict[str, events.TrialStarted] = {}
    trials: dict[str, events.TrialStarted] = {}
    for event in starts:
        configurations.setdefault(event.configuration, event)
        trials.setdefault(event.trial, event)
    rows: dict[str, dict[str, Any]] = {}
    for name, event in configurations.items():
        group = event.model_dump(include={"method", "backbone"})
        group["dev_identity"] = event.dev["identity"]
        dev = {f"dev_{name}": event.dev[name] for name in ("checkpoint", "search", "source")}
        rows[name] = {
            "group_id": insert_record(session, tables.GroupRecord, group, dev).id,
            "revision": event.revision,
            "code": event.code,
            "values": event.values,
            "searched": list(event.searched),
            "corpus": event.dev["corpus"],
        }
    insert_records(session, tables.ConfigurationRecord, "hash", rows)
    known, rows = tables.known_records(session), {}
    for key, event in trials.items():
        configuration = known[tables.ConfigurationRecord, event.configuration].id
        rows[key] = {"configuration_id": configuration, "seed": event.seed}
    insert_records(session, tables.TrialRecord, "key", rows)
    begun = find_attempts(session, journal, trials_of(session, trials).values())
    attempts = [
        {
            "trial_id": known[tables.TrialRecord, key].id,
            **{"journal": journal, "state": "RUNNING", "started": event.time},
        }
        for key, event in trials.items()
        if key not in begun
    ]
    insert_new(session, tables.AttemptRecord, ("trial_id", "journal"), attempts)
    links = [
        {
            "sweep_id": sweep_of(session, event.sweep, journal).id,
            "trial_id": known[tables.TrialRecord, key].id,
            **_make_link(session, journal, event),
        }
        for key, event in trials.items()
    ]
    insert_new(session, tables.SweepTrialRecord, ("sweep_id", "trial_id"), links)


def start_trial(session: Session, journal: str, event: events.TrialStarted) -> bool:
    """Store that a journal starts or resumes its attempt. Returns True if the trial is new.

    An attempt that is complete is not changed; one that restarts from scratch loses its dev points.
    """
    known = tables.known_records(session)
    trial: tables.TrialRecord | None = known.get((tables.TrialRecord, event.trial))
    attempt_key = tables.AttemptRecord, None if trial is None else trial.id, journal
    if not {attempt_key, (tables.ConfigurationRecord, event.configuration)} <= known.keys():
        store_starts(session, journal, [event])
    trial = trial_of(session, event.trial)
    configuration = known[tables.ConfigurationRecord, event.configuration]
    group = session.get_one(tables.GroupRecord, configuration.group_id)
    new = take_new(session, tables.TrialRecord, event.trial)
    if new:
        group.trials += 1
    link(session, journal, event, trial)
    attempt: tables.AttemptRecord = known[tables.AttemptRecord, trial.id, journal]
    if attempt.state == "COMPLETE":
        return new
    is_fresh = event.resumed_from is None
    newest = group.code_since, group.code or ""
    if is_fresh and event.code and (newest[0] is None or newest < (event.time, event.code)):
        group.code, group.code_since = event.code, event.time
    if take_new(session, tables.AttemptRecord, trial.id, journal):
        return new
    if is_fresh or not attempt.state:
        _write_points(session)
        of_attempt = tables.DevPointRecord.attempt_id == attempt.id
        session.execute(delete(tables.DevPointRecord).where(of_attempt))
        attempt.started, attempt.start_value, attempt.reached = event.time, None, None
    attempt.state, attempt.finished, attempt.error, attempt.model = "RUNNING", None, None, None
    attempt.best_step, attempt.best_value, attempt.wall_seconds = None, None, None
    attempt.model_deleted, attempt.why, attempt.cause, attempt.costs = None, None, None, {}
    return new


_LINKS = select(tables.SweepTrialRecord).where(
    tables.SweepTrialRecord.sweep_id == bindparam("sweep"),
    or_(
        tables.SweepTrialRecord.trial_id == bindparam("trial"),
        tables.SweepTrialRecord.number == bindparam("number"),
    ),
)
"""The links of a sweep that have one trial or one number."""


def link(
    session: Session, journal: str, event: events.TrialBegun, trial: tables.TrialRecord
) -> None:
    """Add a trial to its sweep; a retry replaces the trial that had its number, which failed.

    A trial that its sweep reuses after it has failed there counts as reused. In a search, its value
    and those of earlier trials may choose configurations from now on.
    """
    sweep = sweep_of(session, event.sweep, journal).id
    configuration = session.get_one(tables.ConfigurationRecord, trial.configuration_id)
    if configuration.searched != list(event.searched):
        configuration.searched = sorted({*configuration.searched, *event.searched})
        configuration.values = event.values | configuration.values
    pending: PendingWrites = session.info[PendingWrites]
    pending.trials.add(trial.id)
    if configuration.n > 0:
        pending.configurations.add(configuration.id)
    if isinstance(event, events.TrialStarted) and take_new(
        session, tables.SweepTrialRecord, sweep, trial.id
    ):
        return
    parameters, own = {"sweep": sweep, "trial": trial.id, "number": event.number}, None
    for stored in session.scalars(_LINKS, parameters).all():
        if stored.trial_id == trial.id:
            own = stored
        else:
            tables.known_records(session).pop(
                (tables.SweepTrialRecord, sweep, stored.trial_id), None
            )
            session.delete(stored)
            session.flush()
    if own is None:
        key = {"sweep_id": sweep, "trial_id": trial.id}
        insert_record(session, tables.SweepTrialRecord, key, _make_link(session, journal, event))
    elif isinstance(event, events.TrialReused):
        own.reused, own.reused_from = event.time, event.reused_from


def _make_link(session: Session, journal: str, event: events.TrialBegun) -> dict[str, Any]:
    is_reuse, chosen = isinstance(event, events.TrialReused), None
    if event.role != "confirm":
        launched = sweep_of(session, event.sweep, journal).launched
        chosen = launched if event.search_notes.request is None else event.time
    return {
        "number": event.number,
        "role": event.role,
        "chosen": chosen,
        "gpu_seconds": 0.0,
        "reused": event.time if is_reuse else None,
        "reused_from": getattr(event, "reused_from", None),
    }


def add_points(session: Session, journal: str, points: Sequence[events.TrialPoint]) -> None:
    """Store dev points in few queries; the first value stored for a step stays."""
    by_trial = defaultdict[str, list[events.TrialPoint]](list)
    for event in points:
        by_trial[event.trial].append(event)
    attempts = attempts_of(session, journal, by_trial)
    pending: PendingWrites = session.info[PendingWrites]
    for key, of_trial in by_trial.items():
        attempt = attempts[key]
        if attempt.state == "COMPLETE":
            continue
        pending.trials.add(attempt.trial_id)
        attempt.reached = max(attempt.reached or 0, *(event.step for event in of_trial))
        attempt_id = attempt.id
        for event in of_trial:
            value = finite_or_null(event.value)
            if event.step == 0 and attempt.start_value is None:
                attempt.start_value = value
            row = {"attempt_id": attempt_id, "step": event.step, "reported_at": event.time}
            metrics: Mapping[str, float | None] = event.metrics
            if not all(map(math.isfinite, event.metrics.values())):
                metrics = {name: finite_or_null(value) for name, value in event.metrics.items()}
            pending.points.append({**row, "value": value, "metrics": metrics})


def _write_points(session: Session) -> None:
    """Write the pending dev points, so that a query finds them."""
    rows = session.info[PendingWrites].points
    insert_rows(session, tables.DevPointRecord, ("attempt_id", "step"), rows)
    rows.clear()


_DEV_SCORE = re.compile(rf"dev/(?P<task>.+)_(?P<metric>{'|'.join(sorted(events.MAIN_METRICS))})")


def _identified_metrics(*criteria: str) -> set[str]:
    """Find the dev metrics that the identity of these criteria covers: theirs and their sets'."""
    names = {name for criterion in criteria for name in (criterion, *sets_in(criterion))}
    covered = set(map(dev_metric, names))
    if "transfer_dev" in names:
        covered |= {f"dev/{task}_{events.TASK_METRICS[task]}" for task in TRANSFER_TASKS}
    return covered


def finish_trial(session: Session, journal: str, event: events.TrialFinished) -> None:
    """Store the end of an attempt, its GPU time, and a complete one's dev scores."""
    trial = trial_of(session, event.trial)
    attempt = attempts_of(session, journal, {event.trial})[event.trial]
    configuration = session.get_one(tables.ConfigurationRecord, trial.configuration_id)
    group = session.get_one(tables.GroupRecord, configuration.group_id)
    sweep = sweep_of(session, event.sweep, journal).id
    row = tables.known_records(session).get((tables.SweepTrialRecord, sweep, trial.id))
    row = row or session.get(tables.SweepTrialRecord, {"sweep_id": sweep, "trial_id": trial.id})
    if row is not None and event.wall_seconds:
        more = max(0.0, event.wall_seconds * event.gpus - row.gpu_seconds)
        for record in (row, trial, group):
            record.gpu_seconds += more
    if attempt.state == "COMPLETE":
        return
    pending: PendingWrites = session.info[PendingWrites]
    pending.trials.add(trial.id)
    attempt.state, attempt.finished, attempt.error = event.state, event.time, event.error
    attempt.best_step, attempt.best_value = event.best_step, finite_or_null(event.best_value)
    attempt.model, attempt.wall_seconds = event.model, event.wall_seconds
    attempt.why, attempt.cause = event.why, event.cause
    attempt.costs = {name: cost for name, cost in event.costs.items() if math.isfinite(cost)}
    attempt.provenance = dict(event.provenance)
    facts, attempt.machine_id = event.provenance, None
    if (hardware := facts.get("gpu") or facts.get("cpu")) and "host" in facts:
        machine = {"host": facts["host"], "hardware": hardware}
        attempt.machine_id = insert_record(session, tables.MachineRecord, machine, {}).id
    if attempt.state == "COMPLETE":
        identified = _identified_metrics(group.dev_checkpoint, group.dev_search)
        scores = [
            events.TrialScore(
                split="dev",
                value=value,
                identity=group.dev_identity if name in identified else "",
                **named.groupdict(),
            )
            for name, value in event.best_metrics.items()
            if math.isfinite(value) and (named := _DEV_SCORE.fullmatch(name))
        ]
        pending.own_scores += _make_score_rows(trial.key, attempt.id, scores, measured=event.time)
        pending.configurations.add(trial.configuration_id)


def store_reused(session: Session, journal: str, event: events.TrialReused) -> None:
    """Store a trial from a sweep that reuses it: the journal of the sweep that ran it is gone.

    Its dev points have the score that the search climbs, and the best one all metrics.
    """
    of_trial = {"sweep": event.sweep, "trial": event.trial}
    sweep = event.model_dump(include={"method", "revision", "backbone", "dev"})
    shared = events.copy_shared_fields(event)
    start_trial(
        session, journal, events.TrialStarted(time=event.started, **of_trial, **sweep, **shared)
    )
    key = {"sweep_id": sweep_of(session, event.sweep, journal).id}
    key["trial_id"] = trial_of(session, event.trial).id
    own = session.get_one(tables.SweepTrialRecord, key)
    own.reused, own.reused_from = event.time, event.reused_from
    points = [
        events.TrialPoint(
            time=event.finished,
            **of_trial,
            step=step,
            value=value,
            metrics=event.best_metrics if step == event.best_step else {},
        )
        for step, value in event.curve.items()
    ]
    add_points(session, journal, points)
    result = event.model_dump(include={"best_step", "best_value", "best_metrics", "model"})
    end = events.TrialFinished(
        time=event.finished, **of_trial, state="COMPLETE", **result, wall_seconds=event.wall_seconds
    )
    finish_trial(session, journal, end)


def add_evaluation(session: Session, journal: str, event: events.TrialEvaluated) -> None:
    """Store scores and values by example, replacing those of an earlier evaluation of equal
    identity, and the settings behind each identity.
    """
    for identity, settings in event.identities.items():
        source = settings.get("source", event.source)
        if source == "builtin" and is_reference(settings.get("task")):
            source = "hub"
        values = {"settings": settings, "source": source}
        insert_once(session, tables.EvaluationRecord, {"identity": identity}, values)
        stored = session.get_one(tables.EvaluationRecord, identity)
        stored.source = stored.source or source
    trial = trial_of(session, event.trial)
    key = {"trial_id": trial.id, "journal": journal}
    attempt = insert_record(session, tables.AttemptRecord, key, {}).id
    rows = _make_score_rows(event.trial, attempt, event.scores, measured=event.time)
    insert_rows(session, tables.ScoreRecord, SCORE_KEY, rows, newer_by="measured")
    for examples in event.examples:
        packed, gold, count = compress_examples(examples)
        of_set = examples.model_dump(include={"task", "split", "subsets"})
        of_set |= {"examples": count, "gold": gold}
        sha256 = {"data_sha256": examples.data_sha256}
        is_new = insert_once(session, tables.ExampleSetRecord, sha256, of_set)
        query = select(tables.ExampleSetRecord.examples).filter_by(**sha256)
        if not is_new and (known := session.scalar(query)) != count:
            raise StoreLostError(
                f"{examples.task} has {count} examples, and data {examples.data_sha256} has {known}"
            )
        key = {"attempt_id": attempt} | examples.model_dump(include={"task", "identity"})
        row = {**key, **sha256, "statistic": examples.statistic, "packed": packed}
        row["measured"] = event.time
        insert_rows(session, tables.ExampleValuesRecord, tuple(key), [row], newer_by="measured")


SCORE_KEY = ("attempt_id", "task", "split", "metric", "identity")


def _make_score_rows(
    trial: str, attempt: int, scores: Iterable[events.TrialScore], *, measured: datetime
) -> list[dict[str, Any]]:
    """Make the rows of scores.

    A score outside [-1, 1] whose metric is a fraction is dropped with a warning.
    """
    rows = []
    for place, score in enumerate(scores):
        free = score.metric in tables.FREE_METRICS and math.isfinite(score.value)
        if free or -1 <= score.value <= 1:
            of_attempt = {"attempt_id": attempt, "measured": measured, "place": place}
            rows.append(score.model_dump() | of_attempt)
        else:
            name = f"{score.split}/{score.task}_{score.metric}={score.value}"
            _log.warning("trial %s: %s is not a fraction and was not stored", trial, name)
    return rows


def finite_or_null(value: float | None) -> float | None:
    """Return None for a number that is not finite, as the store has no NaN or infinity."""
    return value if value is not None and math.isfinite(value) else None
