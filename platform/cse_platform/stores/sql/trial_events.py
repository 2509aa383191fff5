"""Stores the events of trials: starts, dev points, ends, evaluations.

Each goes to the attempt of its journal; `attempts.py` decides which attempt a trial shows.
"""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, or_, select
from sqlalchemy.orm import Session

from cse_platform.errors import StoreLostError
from cse_platform.stores.sql.attempts import (
    attempts_of,
    find_attempts,
    show_best_attempts,
    trial_of,
    trials_of,
)
from cse_platform.stores.sql.estimates import estimate_configurations
from cse_platform.stores.sql.tables import (
    FREE_METRICS,
    AttemptRecord,
    ConfigurationRecord,
    DevPointRecord,
    EvaluationRecord,
    GroupRecord,
    MachineRecord,
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    SweepTrialRecord,
    TrialRecord,
    insert_new,
    insert_once,
    insert_record,
    insert_records,
    insert_rows,
    known_records,
    sweep_of,
    take_new,
)
from cse_platform.tracking.events import (
    TrialBegun,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialScore,
    TrialStarted,
    copy_shared_fields,
)
from cse_platform.tracking.packing import compress_similarities

_log = logging.getLogger(__name__)
SCORE_KEY = ("attempt_id", "task", "split", "metric", "identity")


@dataclass
class Held:
    """What a transaction that applies events of journals writes or decides at its end."""

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
def holding(session: Session) -> Iterator[None]:
    """Collect what events hold back, and write it at the end, with what follows from it."""
    held = session.info[Held] = Held()
    with session.no_autoflush:  # whoever needs something flushed does so
        yield
    write_points(session)
    insert_rows(session, ScoreRecord, SCORE_KEY, held.own_scores, replaced="older")
    show_best_attempts(session, held.trials)
    for sweep, joined in held.joined.items():
        held.configurations |= _find_only_earlier(session, sweep, joined)
    estimate_configurations(session, held.configurations)
    del session.info[Held]


def _find_only_earlier(session: Session, sweep: int, joined: set[int]) -> set[int]:
    """Find the one configuration that a search had tried before others joined it, if it is one.

    From now on, the values of its trials choose it among several.
    """
    query = (
        select(TrialRecord.configuration_id)
        .join(TrialRecord.places)
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


def add_identities(session: Session, event: TrialEvaluated) -> None:
    """Store the settings behind each identity of an evaluation; fill in a missing source."""
    for identity, settings in event.identities.items():
        source = settings.get("source", event.source)
        values = {"settings": settings, "source": source}
        insert_once(session, EvaluationRecord, {"identity": identity}, values)
        stored = session.get_one(EvaluationRecord, identity)
        if stored.source is None:
            stored.source = source


def add_evaluation(session: Session, journal: str, event: TrialEvaluated) -> None:
    """Store scores and similarities, replacing those of an earlier evaluation of equal identity."""
    trial = trial_of(session, event.trial)
    key = {"trial_id": trial.id, "journal": journal}
    attempt = insert_record(session, AttemptRecord, key, {}).id
    rows = _make_score_rows(event.trial, attempt, event.scores, measured=event.time)
    insert_rows(session, ScoreRecord, SCORE_KEY, rows, replaced="older")
    for similarities in event.similarities:
        cosines, gold, count = compress_similarities(similarities)
        pairs = similarities.model_dump(include={"task", "split", "subsets"})
        pairs |= {"pairs": count, "gold": gold}
        sha256 = {"data_sha256": similarities.data_sha256}
        is_new = insert_once(session, PairSetRecord, sha256, pairs)
        query = select(PairSetRecord.pairs).filter_by(**sha256)
        if not is_new and (known := session.scalar(query)) != count:
            raise StoreLostError(
                f"{similarities.task} has {count} pairs, and data {similarities.data_sha256} "
                f"has {known}"
            )
        key = {"attempt_id": attempt} | similarities.model_dump(include={"task", "identity"})
        row = {**key, **sha256, "cosines": cosines, "measured": event.time}
        insert_rows(session, PairSimilaritiesRecord, tuple(key), [row], replaced="older")


def _make_score_rows(
    trial: str, attempt: int, scores: Iterable[TrialScore], *, measured: datetime
) -> list[dict[str, Any]]:
    """Make the rows of scores.

    A score outside [-1, 1] whose metric is a fraction is dropped with a warning.
    """
    rows = []
    for score in scores:
        free = score.metric in FREE_METRICS and math.isfinite(score.value)
        if free or -1 <= score.value <= 1:
            rows.append(score.model_dump() | {"attempt_id": attempt, "measured": measured})
        else:
            name = f"{score.split}/{score.task}_{score.metric}={score.value}"
            _log.warning("trial %s: %s is not a fraction and was not stored", trial, name)
    return rows


def _find_group(session: Session, trial: TrialRecord) -> GroupRecord:
    configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
    return session.get_one(GroupRecord, configuration.group_id)


def write_points(session: Session) -> None:
    """Write the dev points that are held back, so that a query finds them."""
    rows = session.info[Held].points
    insert_rows(session, DevPointRecord, ("attempt_id", "step"), rows)
    rows.clear()


def begin(session: Session, attempt: AttemptRecord, *, started: datetime | None) -> None:
    """Set an attempt to running. With `started`, it restarts from scratch: its dev points are
    deleted.
    """
    if started is not None:
        write_points(session)
        session.execute(delete(DevPointRecord).where(DevPointRecord.attempt_id == attempt.id))
        attempt.started, attempt.start_value, attempt.reached = started, None, None
    attempt.state, attempt.finished, attempt.error, attempt.model = "RUNNING", None, None, None
    attempt.best_step, attempt.best_value, attempt.wall_seconds = None, None, None
    attempt.model_deleted, attempt.why, attempt.cause, attempt.costs = None, None, None, {}


def finite_or_null(value: float | None) -> float | None:
    """Return None for a number that is not finite, as the store has no NaN or infinity."""
    return value if value is not None and math.isfinite(value) else None


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
    place = AttemptRecord, None if trial is None else trial.id, journal
    if not {place, (ConfigurationRecord, event.configuration)} <= known.keys():
        store_starts(session, journal, [event])
    trial = trial_of(session, event.trial)
    configuration = known[ConfigurationRecord, event.configuration]
    if configuration.searched != list(event.searched):
        configuration.searched = sorted({*configuration.searched, *event.searched})
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
        begin(session, attempt, started=event.time if is_fresh or not attempt.state else None)
    session.info[Held].trials.add(trial.id)
    return new


def add_points(session: Session, journal: str, events: Sequence[TrialPoint]) -> None:
    """Store dev points in few queries; the first value stored for a step stays."""
    attempts, held = attempts_of(session, journal, {event.trial for event in events}), session.info
    for event in events:
        attempt = attempts[event.trial]
        if attempt.state == "COMPLETE":
            continue
        value = finite_or_null(event.value)
        if event.step == 0 and attempt.start_value is None:
            attempt.start_value = value
        attempt.reached = max(event.step, attempt.reached or 0)
        row = {"attempt_id": attempt.id, "step": event.step, "reported_at": event.time}
        metrics = {name: finite_or_null(value) for name, value in event.metrics.items()}
        held[Held].points.append({**row, "value": value, "metrics": metrics})
        held[Held].trials.add(attempt.trial_id)


_DEV_SCORE = re.compile(r"dev/(?P<task>[\w.-]+)_(?P<metric>spearman|accuracy)")


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
    held = session.info[Held]
    held.trials.add(trial.id)
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
        held.own_scores += _make_score_rows(trial.key, attempt.id, scores, measured=event.time)
        held.configurations.add(trial.configuration_id)


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
    if event.role != "confirm":
        session.info[Held].joined[sweep].add(configuration.id)
    if configuration.n > 0:
        session.info[Held].configurations.add(configuration.id)
    if isinstance(event, TrialStarted) and take_new(session, SweepTrialRecord, sweep, trial.id):
        return
    parameters, own = {"sweep": sweep, "trial": trial.id, "number": event.number}, None
    for held in session.scalars(_LINKS, parameters).all():
        if held.trial_id == trial.id:
            own = held
        else:
            known_records(session).pop((SweepTrialRecord, sweep, held.trial_id), None)
            session.delete(held)
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
