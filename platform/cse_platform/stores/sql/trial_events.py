"""Stores what an event of a trial changes, in the attempt of the event's journal."""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, or_, select
from sqlalchemy.orm import Session

from cse_methods.data.dev_selection import dev_metric, sets_in
from cse_methods.tasks import TRANSFER_TASKS
from cse_platform.counting_seeds import RIVALS
from cse_platform.errors import StoreLostError
from cse_platform.stores.sql import tables
from cse_platform.stores.sql.keyed_rows import (
    attempts_of,
    find_attempts,
    insert_new,
    insert_once,
    insert_record,
    insert_records,
    insert_rows,
    sweep_of,
    take_new,
    trial_of,
    trials_of,
)
from cse_platform.stores.sql.pending_writes import (
    SCORE_KEY,
    PendingWrites,
    write_points,
)
from cse_platform.tracking import events
from cse_platform.tracking.packing import compress_examples

_log = logging.getLogger(__name__)


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
            "corpus_sha256": event.dev.get("corpus_sha256"),
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
    new = take_new(session, tables.TrialRecord, event.trial)
    if new:
        session.get_one(tables.GroupRecord, configuration.group_id).trials += 1
    link(session, journal, event, trial)
    attempt: tables.AttemptRecord = known[tables.AttemptRecord, trial.id, journal]
    if attempt.state == "COMPLETE":
        return new
    if take_new(session, tables.AttemptRecord, trial.id, journal):
        return new
    if event.resumed_from is None or not attempt.state:
        write_points(session)
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
            value = _finite_or_null(event.value)
            if event.step == 0 and attempt.start_value is None:
                attempt.start_value = value
            row = {"attempt_id": attempt_id, "step": event.step, "reported_at": event.time}
            metrics: Mapping[str, float | None] = event.metrics
            if not all(map(math.isfinite, event.metrics.values())):
                metrics = {name: _finite_or_null(value) for name, value in event.metrics.items()}
            pending.points.append({**row, "value": value, "metrics": metrics})


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
    attempt.best_step, attempt.best_value = event.best_step, _finite_or_null(event.best_value)
    attempt.model, attempt.wall_seconds = event.model, event.wall_seconds
    attempt.why, attempt.cause = event.why, event.cause
    attempt.costs = {name: cost for name, cost in event.costs.items() if math.isfinite(cost)}
    attempt.provenance = dict(event.provenance)
    if event.state in RIVALS and (code := configuration.code):
        newest = group.code_since, group.code or ""
        if newest[0] is None or newest < (attempt.started, code):
            group.code, group.code_since = code, attempt.started
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
        source = event.source_of(identity)
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


def _make_score_rows(
    trial: str, attempt: int, scores: Iterable[events.TrialScore], *, measured: datetime
) -> list[dict[str, Any]]:
    """Make the rows of scores.

    A score outside [-1, 1] whose metric is a fraction is dropped with a warning.
    """
    rows = []
    for place, score in enumerate(scores):
        free = score.metric in tables.FREE_METRICS and math.isfinite(score.value)
        value = score.value if free else events.round_to_fraction(score.value)
        if free or -1 <= value <= 1:
            of_attempt = {"attempt_id": attempt, "measured": measured, "place": place}
            rows.append(score.model_dump() | of_attempt | {"value": value})
        else:
            name = f"{score.split}/{score.task}_{score.metric}={score.value}"
            _log.warning("trial %s: %s is not a fraction and was not stored", trial, name)
    return rows


def _finite_or_null(value: float | None) -> float | None:
    """Return None for a number that is not finite, as the store has no NaN or infinity."""
    return value if value is not None and math.isfinite(value) else None
