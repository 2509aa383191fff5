"""Stores the events of journals in the tables of the leaderboard: what each event changes.

First the event of a sweep, then those of trials; each trial's go to the attempt of their journal.
Below stand the finding of rows and their insertion by keys, which all of them share.
"""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import ValidationError
from sqlalchemy import bindparam, delete, exists, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import Insert

from cse_methods.referenced_tasks.reference import is_reference
from cse_platform.errors import StoreLostError
from cse_platform.secrets import mask_text
from cse_platform.stores.sql.attempts import show_best_attempts
from cse_platform.stores.sql.estimates import estimate_configurations
from cse_platform.stores.sql.store import Store, server_time
from cse_platform.stores.sql.tables import (
    FREE_METRICS,
    AnnotationRecord,
    AttemptRecord,
    Base,
    ConfigurationRecord,
    DevPointRecord,
    DriverMessageRecord,
    EarlyEventRecord,
    EvaluationRecord,
    ExampleSetRecord,
    ExampleValuesRecord,
    GroupRecord,
    MachineRecord,
    ScoreRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepStartRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TestAccessRecord,
    TrialRecord,
    in_batches,
    known_records,
    sweep_or_none,
)
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import (
    EVENT,
    MAIN_METRICS,
    AnnotationWritten,
    DriverMessage,
    Event,
    ModelDeleted,
    SearchEnded,
    SweepFinished,
    SweepRequested,
    SweepStarted,
    TestAccessed,
    TrialBegun,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialScore,
    TrialStarted,
    copy_shared_fields,
)
from cse_platform.tracking.history import stored_confirmed, stored_dev
from cse_platform.tracking.packing import compress_examples

_log = logging.getLogger(__name__)


CONTRADICTIONS = (StoreLostError, LookupError, TypeError, ValueError, OverflowError)
"""Errors raised by an event that contradicts the store; a retry would fail again."""


def apply_event(session: Session, journal: str, position: int, event: Event) -> None:
    """Store an event at a position of a journal.

    An event about a trial that is not stored yet is held back until the trial starts, and the reuse
    of one that is not complete until it is.
    """
    match event:
        case SweepStarted():
            start_sweep(session, journal, event)
        case SweepFinished():
            sweep = sweep_of(session, event.sweep, journal)
            sweep.state, sweep.finished = event.state, event.time
        case DriverMessage():
            message = event.model_dump(include={"time", "level", "text"})
            message["sweep_id"] = sweep_of(session, event.sweep, journal).id
            key = {"journal": journal, "position": position}
            insert_once(session, DriverMessageRecord, key, message)
        case SearchEnded():
            sweep_of(session, event.sweep, journal).ended_by = event.budget
        case SweepRequested():
            take_request(session, event)
        case AnnotationWritten():
            add_annotation(session, event)
        case TrialStarted():
            if start_trial(session, journal, event):
                _apply_early_events(session, event.trial)
        case TrialPoint():
            add_points(session, journal, [event])
        case TrialFinished():
            finish_trial(session, journal, event)
            if event.state == "COMPLETE":
                _apply_early_events(session, event.trial)
        case ModelDeleted():
            trial = trial_of(session, event.trial)
            for attempt in find_attempts(session, journal, [trial]).values():
                attempt.model, attempt.model_deleted = None, event.time
        case TrialReused() | TestAccessed() | TrialEvaluated():
            _apply_or_store_early(session, journal, position, event)


def store_reused_trials(leaderboard: Store) -> None:
    """Complete the trials that journals reuse and none has completed, because that one is gone."""
    with leaderboard.writing() as session, collect_writes(session):
        early = session.execute(select(EarlyEventRecord.journal, EarlyEventRecord.event)).all()
        events = [(journal, EVENT.validate_json(text)) for journal, text in early]
        for journal, event in sorted(events, key=lambda entry: entry[1].time):
            if not isinstance(event, TrialReused):
                continue
            trial = trial_or_none(session, event.trial)
            if trial is None or not is_complete(session, trial):
                store_reused(session, journal, event)
                _apply_early_events(session, event.trial)


def _trials_with_early_events(session: Session) -> set[str]:
    """Return the keys of the trials for which events are held back; a session asks once."""
    known = known_records(session)
    if (EarlyEventRecord,) not in known:
        known[EarlyEventRecord,] = {*session.scalars(select(EarlyEventRecord.trial).distinct())}
    keys: set[str] = known[EarlyEventRecord,]
    return keys


def _apply_early_events(session: Session, key: str) -> None:
    """Apply the events that are held back for a trial, and no longer have to be.

    Those that contradict the store are skipped and logged.
    """
    if key not in _trials_with_early_events(session):
        return
    trial, of_trial = trial_of(session, key), EarlyEventRecord.trial == key
    order = EarlyEventRecord.journal, EarlyEventRecord.position
    for early in session.scalars(select(EarlyEventRecord).where(of_trial).order_by(*order)).all():
        event = EVENT.validate_json(early.event)
        if isinstance(event, TrialReused) and not is_complete(session, trial):
            continue
        session.delete(early)
        try:
            with session.begin_nested():
                apply_event(session, early.journal, early.position, event)
        except CONTRADICTIONS as error:
            if isinstance(event, TestAccessed):
                raise
            reason = mask_text(str(error) or repr(error))
            _log.warning("sweep %s: a %s is left out: %s", event.sweep, event.kind, reason)


def _apply_or_store_early(
    session: Session,
    journal: str,
    position: int,
    event: TrialReused | TestAccessed | TrialEvaluated,
) -> None:
    """Apply an event, or store it until its trial is stored, or complete if the event reuses it."""
    trial, reuses = trial_or_none(session, event.trial), isinstance(event, TrialReused)
    if trial is None or (reuses and not is_complete(session, trial)):
        lacks = "not complete" if reuses else "not"
        says = "sweep %s: trial %s is %s on this leaderboard yet"
        _log.warning(says, event.sweep, event.trial, lacks)
        key = {"journal": journal, "position": position}
        values = {"trial": event.trial, "event": event.model_dump_json()}
        insert_once(session, EarlyEventRecord, key, values)
        _trials_with_early_events(session).add(event.trial)
        return
    match event:
        case TrialReused():
            link(session, journal, event, trial)
        case TestAccessed():
            key = {
                "trial_id": trial.id,
                "opened": event.time,
                "who": event.who,
                "source": event.source,
            }
            details = {"command": event.command, "tasks": list(event.tasks)}
            insert_once(session, TestAccessRecord, key, details)
        case TrialEvaluated():
            add_identities(session, event)
            add_evaluation(session, journal, event)


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
    before = sweep.confirms_all
    set_spec(sweep, event.spec)
    pending: PendingWrites = session.info[PendingWrites]
    pending.joined[sweep.id] |= set()
    if sweep.confirms_all != before:  # other seeds estimate its configurations
        pending.configurations |= _find_tried(session, sweep.id)
    session.execute(delete(SweepTagRecord).where(SweepTagRecord.sweep_id == sweep.id))
    for tag in event.spec.get("tags", ()):
        insert_once(session, SweepTagRecord, {"sweep_id": sweep.id, "tag": tag}, {})


def set_spec(sweep: SweepRecord, spec: Mapping[str, Any]) -> None:
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


def add_annotation(session: Session, event: AnnotationWritten) -> None:
    """Store the annotation changes of an event, except those for which a later change is stored.

    Storing an event twice changes nothing.
    """
    for kind, word, text, stands in event.changes:
        new = AnnotationRecord(
            about=event.about,
            name=event.name,
            field=kind,
            word=word,
            text=text,
            stands=stands,
            who=event.who,
            time=event.time,
        )
        known = session.get(AnnotationRecord, (new.about, new.name, new.field, new.word))
        if known is None or known.time < new.time:
            session.merge(new)
            session.flush()


@dataclass
class PendingWrites:
    """The rows and decisions that a transaction of events leaves to its end."""

    points: list[dict[str, Any]] = field(default_factory=list)
    """The rows of dev points; the first value for a step stays."""
    own_scores: list[dict[str, Any]] = field(default_factory=list)
    """The rows of the dev scores of complete attempts."""
    trials: set[int] = field(default_factory=set)
    """Those whose attempts have changed, by id."""
    configurations: set[int] = field(default_factory=set)
    """Those whose estimates are to be computed again."""
    joined: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The configurations whose trials join the search of a sweep, by the sweep's id."""


@contextmanager
def collect_writes(session: Session) -> Iterator[None]:
    """Collect what events leave to the end, and write it there, with what follows from it."""
    pending = session.info[PendingWrites] = PendingWrites()
    with session.no_autoflush:  # whoever needs something flushed does so
        yield
    _write_points(session)
    insert_rows(session, ScoreRecord, SCORE_KEY, pending.own_scores, replaced="older")
    show_best_attempts(session, pending.trials)
    for sweep, joined in pending.joined.items():
        pending.configurations |= _find_only_earlier(session, sweep, joined)
        pending.configurations |= _find_more_than_confirmed(session, sweep)
    estimate_configurations(session, pending.configurations)
    del session.info[PendingWrites]


def _find_only_earlier(session: Session, sweep: int, joined: set[int]) -> set[int]:
    """Find the one configuration that a search had tried before others joined it, if it is one.

    From now on, the values of its trials choose it among several.
    """
    query = (
        select(TrialRecord.configuration_id)
        .join(TrialRecord.links)
        .where(
            SweepTrialRecord.sweep_id == sweep,
            SweepTrialRecord.role != "confirm",
            TrialRecord.configuration_id.not_in(joined),
        )
        .distinct()
        .limit(2)
    )
    earlier = set(session.scalars(query))
    return earlier if len(earlier) == 1 else set()


def _find_more_than_confirmed(session: Session, sweep: int) -> set[int]:
    """Find the configurations of a search that was to confirm all, and has tried more than that.

    A person has added one, or the budget was lowered. Then values choose, and the sweep says so.
    """
    record = session.get_one(SweepRecord, sweep)
    if not record.confirms_all:
        return set()
    tried = _find_tried(session, sweep, SweepTrialRecord.role != "confirm")
    if len(tried) <= stored_confirmed(record.spec):
        return set()
    record.confirms_all = False
    session.flush()
    return tried


def _find_tried(session: Session, sweep: int, *conditions: Any) -> set[int]:
    """Find the configurations of a sweep's trials that match all conditions, by id."""
    query = select(TrialRecord.configuration_id).join(TrialRecord.links).distinct()
    return set(session.scalars(query.where(SweepTrialRecord.sweep_id == sweep, *conditions)))


def store_starts(session: Session, journal: str, events: Sequence[TrialStarted]) -> None:
    """Store the configurations, trials, attempts and links of a journal's starts, in few
    statements.

    A link whose trial or number the sweep has already is left to `start_trial`.
    """
    configurations: dict[str, TrialStarted] = {}
    trials: dict[str, TrialStarted] = {}
    for event in events:
        configurations.setdefault(event.configuration, event)
        trials.setdefault(event.trial, event)
    rows: dict[str, dict[str, Any]] = {}
    for name, event in configurations.items():
        group = event.model_dump(include={"method", "backbone"})
        group["dev_identity"] = event.dev["identity"]
        dev = {f"dev_{name}": event.dev[name] for name in ("checkpoint", "search", "source")}
        rows[name] = {
            "group_id": insert_record(session, GroupRecord, group, dev).id,
            "revision": event.revision,
            "code": event.code,
            "values": event.values,
            "searched": list(event.searched),
            "corpus": event.dev["corpus"],
        }
    insert_records(session, ConfigurationRecord, "hash", rows)
    known, rows = known_records(session), {}
    for key, event in trials.items():
        configuration = known[ConfigurationRecord, event.configuration].id
        rows[key] = {"configuration_id": configuration, "seed": event.seed}
    insert_records(session, TrialRecord, "key", rows)
    begun = find_attempts(session, journal, trials_of(session, trials).values())
    attempts = [
        {
            "trial_id": known[TrialRecord, key].id,
            **{"journal": journal, "state": "RUNNING", "started": event.time},
        }
        for key, event in trials.items()
        if key not in begun
    ]
    insert_new(session, AttemptRecord, ("trial_id", "journal"), attempts)
    links = [
        {
            "sweep_id": sweep_of(session, event.sweep, journal).id,
            "trial_id": known[TrialRecord, key].id,
            **_make_link(session, journal, event),
        }
        for key, event in trials.items()
    ]
    insert_new(session, SweepTrialRecord, ("sweep_id", "trial_id"), links)


def start_trial(session: Session, journal: str, event: TrialStarted) -> bool:
    """Store that a journal starts or resumes its attempt. Returns True if the trial is new.

    An attempt that is complete is not changed.
    """
    known = known_records(session)
    trial: TrialRecord | None = known.get((TrialRecord, event.trial))
    attempt_key = AttemptRecord, None if trial is None else trial.id, journal
    if not {attempt_key, (ConfigurationRecord, event.configuration)} <= known.keys():
        store_starts(session, journal, [event])
    trial = trial_of(session, event.trial)
    configuration = known[ConfigurationRecord, event.configuration]
    group = session.get_one(GroupRecord, configuration.group_id)
    new = take_new(session, TrialRecord, event.trial)
    if new:
        group.trials += 1
    link(session, journal, event, trial)
    attempt: AttemptRecord = known[AttemptRecord, trial.id, journal]
    if attempt.state == "COMPLETE":
        return new
    is_fresh = event.resumed_from is None
    since = event.time, event.code or ""
    if is_fresh and (group.code_since is None or (group.code_since, group.code or "") < since):
        group.code, group.code_since = event.code, event.time
    if not take_new(session, AttemptRecord, trial.id, journal):
        begin_attempt(
            session, attempt, started=event.time if is_fresh or not attempt.state else None
        )
    session.info[PendingWrites].trials.add(trial.id)
    return new


def begin_attempt(session: Session, attempt: AttemptRecord, *, started: datetime | None) -> None:
    """Set an attempt to running. With `started`, it restarts from scratch: its dev points are
    deleted.
    """
    if started is not None:
        _write_points(session)
        session.execute(delete(DevPointRecord).where(DevPointRecord.attempt_id == attempt.id))
        attempt.started, attempt.start_value, attempt.reached = started, None, None
    attempt.state, attempt.finished, attempt.error, attempt.model = "RUNNING", None, None, None
    attempt.best_step, attempt.best_value, attempt.wall_seconds = None, None, None
    attempt.model_deleted, attempt.why, attempt.cause, attempt.costs = None, None, None, {}


_LINKS = select(SweepTrialRecord).where(
    SweepTrialRecord.sweep_id == bindparam("sweep"),
    or_(
        SweepTrialRecord.trial_id == bindparam("trial"),
        SweepTrialRecord.number == bindparam("number"),
    ),
)
"""The links of a sweep that have one trial or one number."""


def link(session: Session, journal: str, event: TrialBegun, trial: TrialRecord) -> None:
    """Add a trial to its sweep; a retry replaces the trial that had its number, which failed.

    A trial that its sweep reuses after it has failed there counts as reused. In a search, its value
    and those of earlier trials may choose configurations from now on.
    """
    sweep = sweep_of(session, event.sweep, journal).id
    configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
    if configuration.searched != list(event.searched):
        configuration.searched = sorted({*configuration.searched, *event.searched})
        configuration.values = event.values | configuration.values
    if event.role != "confirm":
        session.info[PendingWrites].joined[sweep].add(configuration.id)
    if configuration.n > 0:
        session.info[PendingWrites].configurations.add(configuration.id)
    if isinstance(event, TrialStarted) and take_new(session, SweepTrialRecord, sweep, trial.id):
        return
    parameters, own = {"sweep": sweep, "trial": trial.id, "number": event.number}, None
    for stored in session.scalars(_LINKS, parameters).all():
        if stored.trial_id == trial.id:
            own = stored
        else:
            known_records(session).pop((SweepTrialRecord, sweep, stored.trial_id), None)
            session.delete(stored)
            session.flush()
    if own is None:
        key = {"sweep_id": sweep, "trial_id": trial.id}
        insert_record(session, SweepTrialRecord, key, _make_link(session, journal, event))
    elif isinstance(event, TrialReused):
        own.reused, own.reused_from = event.time, event.reused_from


def _make_link(session: Session, journal: str, event: TrialBegun) -> dict[str, Any]:
    reused = (event.time, event.reused_from) if isinstance(event, TrialReused) else (None, None)
    chosen = None
    if event.role != "confirm":
        launched = sweep_of(session, event.sweep, journal).launched
        chosen = launched if event.search_notes.request is None else event.time
    return {
        "number": event.number,
        "role": event.role,
        "chosen": chosen,
        "gpu_seconds": 0.0,
        "reused": reused[0],
        "reused_from": reused[1],
    }


def add_points(session: Session, journal: str, events: Sequence[TrialPoint]) -> None:
    """Store dev points in few queries; the first value stored for a step stays."""
    by_trial = defaultdict[str, list[TrialPoint]](list)
    for event in events:
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
            metrics = {name: finite_or_null(value) for name, value in event.metrics.items()}
            pending.points.append({**row, "value": value, "metrics": metrics})


def _write_points(session: Session) -> None:
    """Write the pending dev points, so that a query finds them."""
    rows = session.info[PendingWrites].points
    insert_rows(session, DevPointRecord, ("attempt_id", "step"), rows)
    rows.clear()


_DEV_SCORE = re.compile(rf"dev/(?P<task>.+)_(?P<metric>{'|'.join(sorted(MAIN_METRICS))})")


def finish_trial(session: Session, journal: str, event: TrialFinished) -> None:
    """Store the end of an attempt, its GPU time, and a complete one's dev scores."""
    trial = trial_of(session, event.trial)
    attempt = attempts_of(session, journal, {event.trial})[event.trial]
    group = _find_group(session, trial)
    sweep = sweep_of(session, event.sweep, journal).id
    row = known_records(session).get((SweepTrialRecord, sweep, trial.id))
    row = row or session.get(SweepTrialRecord, {"sweep_id": sweep, "trial_id": trial.id})
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
        attempt.machine_id = insert_record(session, MachineRecord, machine, {}).id
    if attempt.state == "COMPLETE":
        scores = [
            TrialScore(split="dev", value=value, identity=group.dev_identity, **named.groupdict())
            for name, value in event.best_metrics.items()
            if math.isfinite(value) and (named := _DEV_SCORE.fullmatch(name))
        ]
        pending.own_scores += _make_score_rows(trial.key, attempt.id, scores, measured=event.time)
        pending.configurations.add(trial.configuration_id)


def store_reused(session: Session, journal: str, event: TrialReused) -> None:
    """Store a trial from a sweep that reuses it: the journal of the sweep that ran it is gone.

    Its dev points have the score that the search climbs, and the best one all metrics.
    """
    of_trial = {"sweep": event.sweep, "trial": event.trial}
    sweep = event.model_dump(include={"method", "revision", "backbone", "dev"})
    shared = copy_shared_fields(event)
    start_trial(session, journal, TrialStarted(time=event.started, **of_trial, **sweep, **shared))
    key = {"sweep_id": sweep_of(session, event.sweep, journal).id}
    key["trial_id"] = trial_of(session, event.trial).id
    own = session.get_one(SweepTrialRecord, key)
    own.reused, own.reused_from = event.time, event.reused_from
    points = [
        TrialPoint(
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
    end = TrialFinished(
        time=event.finished, **of_trial, state="COMPLETE", **result, wall_seconds=event.wall_seconds
    )
    finish_trial(session, journal, end)


def add_identities(session: Session, event: TrialEvaluated) -> None:
    """Store the settings behind each identity of an evaluation; fill in a missing source."""
    for identity, settings in event.identities.items():
        source = settings.get("source", event.source)
        if source == "builtin" and is_reference(settings.get("task")):
            source = "hub"
        values = {"settings": settings, "source": source}
        insert_once(session, EvaluationRecord, {"identity": identity}, values)
        stored = session.get_one(EvaluationRecord, identity)
        if stored.source is None:
            stored.source = source


def add_evaluation(session: Session, journal: str, event: TrialEvaluated) -> None:
    """Store scores and values by example, replacing those of an earlier evaluation of equal
    identity.
    """
    trial = trial_of(session, event.trial)
    key = {"trial_id": trial.id, "journal": journal}
    attempt = insert_record(session, AttemptRecord, key, {}).id
    rows = _make_score_rows(event.trial, attempt, event.scores, measured=event.time)
    insert_rows(session, ScoreRecord, SCORE_KEY, rows, replaced="older")
    for examples in event.examples:
        values, gold, count = compress_examples(examples)
        of_set = examples.model_dump(include={"task", "split", "subsets"})
        of_set |= {"examples": count, "gold": gold}
        sha256 = {"data_sha256": examples.data_sha256}
        is_new = insert_once(session, ExampleSetRecord, sha256, of_set)
        query = select(ExampleSetRecord.examples).filter_by(**sha256)
        if not is_new and (known := session.scalar(query)) != count:
            raise StoreLostError(
                f"{examples.task} has {count} examples, and data {examples.data_sha256} has {known}"
            )
        key = {"attempt_id": attempt} | examples.model_dump(include={"task", "identity"})
        row = {**key, **sha256, "statistic": examples.statistic, "packed": values}
        row["measured"] = event.time
        insert_rows(session, ExampleValuesRecord, tuple(key), [row], replaced="older")


SCORE_KEY = ("attempt_id", "task", "split", "metric", "identity")


def _make_score_rows(
    trial: str, attempt: int, scores: Iterable[TrialScore], *, measured: datetime
) -> list[dict[str, Any]]:
    """Make the rows of scores.

    A score outside [-1, 1] whose metric is a fraction is dropped with a warning.
    """
    rows = []
    for place, score in enumerate(scores):
        free = score.metric in FREE_METRICS and math.isfinite(score.value)
        if free or -1 <= score.value <= 1:
            of_attempt = {"attempt_id": attempt, "measured": measured, "place": place}
            rows.append(score.model_dump() | of_attempt)
        else:
            name = f"{score.split}/{score.task}_{score.metric}={score.value}"
            _log.warning("trial %s: %s is not a fraction and was not stored", trial, name)
    return rows


def _find_group(session: Session, trial: TrialRecord) -> GroupRecord:
    configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
    return session.get_one(GroupRecord, configuration.group_id)


def finite_or_null(value: float | None) -> float | None:
    """Return None for a number that is not finite, as the store has no NaN or infinity."""
    return value if value is not None and math.isfinite(value) else None


def sweep_of(session: Session, name: str, journal: str) -> SweepRecord:
    """Find the sweep of that name, which belongs to the journal that started it first.

    Raises StoreLostError if it is not stored, or belongs to another journal.
    """
    if (sweep := sweep_or_none(session, name)) is None:
        raise StoreLostError(f"the journal speaks of sweep {name!r} before it starts")
    if sweep.journal != journal:
        raise StoreLostError(f"sweep {name!r} has another journal")
    return sweep


def trial_of(session: Session, key: str) -> TrialRecord:
    """Find the trial of that key. Raises StoreLostError if it is not stored."""
    return trials_of(session, {key})[key]


def trials_of(session: Session, keys: Collection[str]) -> dict[str, TrialRecord]:
    """Find these trials by key. Raises StoreLostError if one is not stored."""
    known = known_records(session)
    unread = [key for key in keys if (TrialRecord, key) not in known]
    if unread:
        query = select(TrialRecord).where(TrialRecord.key.in_(unread))
        known.update(((TrialRecord, trial.key), trial) for trial in session.scalars(query))
    if missing := sorted(key for key in unread if (TrialRecord, key) not in known):
        raise StoreLostError(f"the journal speaks of trial {missing[0]!r} before it starts")
    return {key: known[TrialRecord, key] for key in keys}


def trial_or_none(session: Session, key: str) -> TrialRecord | None:
    known: TrialRecord | None = known_records(session).get((TrialRecord, key))
    query = select(TrialRecord).where(TrialRecord.key == key)
    return known or session.scalars(query).one_or_none()


def find_attempts(
    session: Session, journal: str, trials: Collection[TrialRecord]
) -> dict[str, AttemptRecord]:
    """Find the records that a journal has of these trials, by the keys of the trials."""
    known = known_records(session)
    unread = [t.id for t in trials if (AttemptRecord, t.id, journal) not in known]
    for ids in in_batches(unread):
        query = select(AttemptRecord).where(AttemptRecord.trial_id.in_(ids))
        for attempt in session.scalars(query.where(AttemptRecord.journal == journal)):
            known[AttemptRecord, attempt.trial_id, journal] = attempt
    attempts = {trial.key: known.get((AttemptRecord, trial.id, journal)) for trial in trials}
    return {key: attempt for key, attempt in attempts.items() if attempt is not None}


def attempts_of(session: Session, journal: str, keys: Collection[str]) -> dict[str, AttemptRecord]:
    """Find a journal's attempts at trials, by their keys. Raises StoreLostError if it has not
    started one.
    """
    attempts = find_attempts(session, journal, trials_of(session, keys).values())
    for key in sorted(keys):
        if key not in attempts or not attempts[key].state:
            raise StoreLostError(f"the journal speaks of trial {key!r} before it starts")
    return attempts


def is_complete(session: Session, trial: TrialRecord) -> bool:
    """Return whether an attempt at a trial is complete."""
    session.flush()
    complete = AttemptRecord.trial_id == trial.id, AttemptRecord.state == "COMPLETE"
    return bool(session.scalar(select(exists().where(*complete))))


_NEW = "new"
_Record = TypeVar("_Record", bound=Base)


def insert_record(
    session: Session, table: type[_Record], key: Mapping[str, Any], values: Mapping[str, Any]
) -> _Record:
    """Insert a row like `insert_once`. Returns the row of the key, which a session reads once."""
    known, name = known_records(session), (table, *key.values())
    if name not in known:
        insert_once(session, table, key, values)
        known[name] = session.scalars(select(table).filter_by(**key)).one()
    record: _Record = known[name]
    return record


def insert_records(
    session: Session, table: type[_Record], key: str, rows: Mapping[str, Mapping[str, Any]]
) -> None:
    """Insert the rows whose keys are absent, in few statements; `take_new` tells which these are.

    `rows` has the other columns, which are the same for all rows, by key. Only within a transaction
    that writes alone.
    """
    known, name = known_records(session), getattr(table, key)
    unread = [value for value in rows if (table, value) not in known]
    for keys in in_batches(unread):
        query = select(table).where(name.in_(keys))
        known.update(((table, getattr(row, key)), row) for row in session.scalars(query))
    new = [{key: value, **rows[value]} for value in unread if (table, value) not in known]
    insert_new(session, table, (key,), new)


def insert_new(
    session: Session, table: type[_Record], key: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert the rows that are in no conflict with stored ones, and note that they are new."""
    if rows:
        known, dialect = known_records(session), session.get_bind().dialect.name
        statement = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
        for row in session.scalars(statement.on_conflict_do_nothing().returning(table), rows):
            name = (table, *(getattr(row, column) for column in key))
            known[name], known[_NEW, *name] = row, True


def take_new(session: Session, table: type[_Record], *key: Any) -> bool:
    """Return True once for each row that this transaction has inserted in bulk."""
    return known_records(session).pop((_NEW, table, *key), False) is True


def insert_once(
    session: Session, table: type[Base], key: Mapping[str, Any], values: Mapping[str, Any]
) -> bool:
    """Insert a row if its key is absent. Returns True if it was inserted.

    Safe while writers in other processes do the same. The table has a unique constraint on `key`;
    `values` are its other columns.
    """
    return insert_rows(session, table, tuple(key), [{**key, **values}]) > 0


Replaced = Literal["none", "older", "all"]


def insert_rows(
    session: Session,
    table: type[Base],
    key: tuple[str, ...],
    rows: Sequence[Mapping[str, Any]],
    *,
    replaced: Replaced = "none",
) -> int:
    """Insert rows, like `insert_once`. Returns how many were written.

    Of the rows that are stored under their keys, none are replaced, those that were `measured`
    earlier, or all.
    """
    if not rows:
        return 0
    dialect = session.get_bind().dialect.name
    statement = _make_insert(dialect, table, key, tuple(rows[0]), replaced)
    return session.connection().execute(statement, [dict(row) for row in rows]).rowcount


@cache  # SQLAlchemy takes longer to make such a statement than the database to run it
def _make_insert(
    dialect: str,
    table: type[Base],
    key: tuple[str, ...],
    names: tuple[str, ...],
    replaced: Replaced,
) -> Insert:
    statement = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    new, old = statement.excluded, table.__table__.c
    if replaced == "none":
        statement = statement.on_conflict_do_nothing(index_elements=list(key))
    else:
        statement = statement.on_conflict_do_update(
            index_elements=list(key),
            set_={name: new[name] for name in names if name not in key},
            where=new["measured"] > old["measured"] if replaced == "older" else None,
        )
    return statement.execution_options(preserve_rowcount=True)
