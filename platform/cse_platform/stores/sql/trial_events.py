"""Stores the events of a trial's attempts: start, dev points, end."""

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import Session

from cse_platform.stores.sql.attempts import Held, begin, finite_or_null, is_shown
from cse_platform.stores.sql.evaluations import replace_own_scores
from cse_platform.stores.sql.sweep_events import find_held_numbers, spend
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    GroupRecord,
    MachineRecord,
    SweepTrialRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.stores.sql.upserts import (
    insert_new,
    insert_record,
    insert_records,
    known_records,
    sweep_of,
    take_new,
    trial_of,
    trials_of,
)
from cse_platform.tracking.events import (
    TrialBegun,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialStarted,
    copy_shared_fields,
)


def store_starts(session: Session, journal: str, events: Sequence[TrialStarted]) -> None:
    """Store the configurations, trials and links of a journal's starts, in few statements.

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
            "group_id": insert_record(session, GroupRecord, group, dev)[0].id,
            "revision": event.revision,
            "code": event.code,
            "values": event.values,
            "searched": list(event.searched),
            "corpus": event.dev["corpus"],
            "averages": list(event.averages) or None,
        }
    insert_records(session, ConfigurationRecord, "hash", rows)
    known, rows = known_records(session), {}
    for key, event in trials.items():
        configuration = known[ConfigurationRecord, event.configuration].id
        first = {"configuration_id": configuration, "seed": event.seed, "state": "RUNNING"}
        rows[key] = first | {"journal": journal, "started": event.time}
    insert_records(session, TrialRecord, "key", rows)
    sweeps = {sweep_of(session, event.sweep, journal).id: event.sweep for event in events}
    for sweep, name in sweeps.items():
        links = [
            {"sweep_id": sweep, "trial_id": known[TrialRecord, key].id, **_make_link(event)}
            for key, event in trials.items()
            if event.sweep == name
        ]
        for some in in_batches(links):
            new: list[dict[str, Any]] = []
            held = find_held_numbers(session, sweep, some)
            taken = {*held.values()}
            for row in some:
                if row["trial_id"] not in held and row["number"] not in taken:
                    new.append({"gpu_seconds": 0.0, **row})
                    taken.add(row["number"])
            insert_new(session, SweepTrialRecord, ("sweep_id", "trial_id"), new)


def start_trial(session: Session, journal: str, event: TrialStarted) -> bool:
    """Store that a journal starts or resumes an attempt. Returns True if the trial is new.

    An attempt that is complete is not changed.
    """
    known = known_records(session)
    needed = {(TrialRecord, event.trial), (ConfigurationRecord, event.configuration)}
    if not needed <= known.keys():
        store_starts(session, journal, [event])
    trial = known[TrialRecord, event.trial]
    configuration = known[ConfigurationRecord, event.configuration]
    if configuration.searched != list(event.searched):
        configuration.searched = sorted({*configuration.searched, *event.searched})
    group = session.get_one(GroupRecord, configuration.group_id)
    new = take_new(session, TrialRecord, event.trial)
    if new:
        configuration.trials += 1
        group.trials += 1
    link(session, journal, event, trial)
    if trial.journal == journal and trial.state == "COMPLETE":
        return new
    is_fresh = event.resumed_from is None
    if is_fresh and (group.code_since is None or group.code_since < event.time):
        group.code, group.code_since = event.code, event.time
    if not new:
        begin_attempt(session, trial, journal, event)
    return new


def begin_attempt(session: Session, trial: TrialRecord, journal: str, event: TrialStarted) -> None:
    """Set a trial to running if it shows the journal's attempt."""
    if is_shown(session, trial, journal):
        begin(session, trial, started=event.time if event.resumed_from is None else None)


def add_points(session: Session, journal: str, events: Sequence[TrialPoint]) -> None:
    """Store dev points in few queries; the first value stored for a step stays."""
    trials = trials_of(session, {event.trial for event in events})
    for event in events:
        trial = trials[event.trial]
        if not is_shown(session, trial, journal, reached=event.step):
            continue
        value = finite_or_null(event.value)
        if event.step == 0 and trial.start_value is None:
            trial.start_value = value
        row = {"trial_id": trial.id, "step": event.step, "reported_at": event.time, "value": value}
        row["metrics"] = {name: finite_or_null(value) for name, value in event.metrics.items()}
        session.info[Held].points.append(row)


def finish_trial(session: Session, journal: str, event: TrialFinished) -> None:
    """Store the end of an attempt, and its GPU time."""
    trial = trial_of(session, event.trial)
    sweep = sweep_of(session, event.sweep, journal).id
    place = known_records(session).get((SweepTrialRecord, sweep, trial.id))
    place = place or session.get(SweepTrialRecord, {"sweep_id": sweep, "trial_id": trial.id})
    if place is not None and event.wall_seconds:
        configuration = session.get_one(ConfigurationRecord, trial.configuration_id)
        group = session.get_one(GroupRecord, configuration.group_id)
        spend(event.wall_seconds * event.gpus, place, trial, configuration, group)
    completed = event.time if event.state == "COMPLETE" else None
    if not is_shown(session, trial, journal, completed=completed):
        return
    trial.state, trial.finished, trial.error = event.state, event.time, event.error
    trial.best_step, trial.best_value = event.best_step, finite_or_null(event.best_value)
    trial.model, trial.wall_seconds, trial.why = event.model, event.wall_seconds, event.why
    trial.costs = {name: cost for name, cost in event.costs.items() if math.isfinite(cost)}
    trial.provenance = dict(event.provenance)
    facts, trial.machine_id = event.provenance, None
    if (hardware := facts.get("gpu") or facts.get("cpu")) and "host" in facts:
        machine = {"host": facts["host"], "hardware": hardware}
        trial.machine_id = insert_record(session, MachineRecord, machine, {})[0].id
    if trial.state == "COMPLETE":
        metrics = {name: finite_or_null(value) for name, value in event.best_metrics.items()}
        replace_own_scores(session, trial, metrics)
        session.info[Held].configurations.add(trial.configuration_id)


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
    found = event.model_dump(include={"best_step", "best_value", "best_metrics", "model"})
    end = TrialFinished(
        time=event.finished, **of_trial, state="COMPLETE", **found, wall_seconds=event.wall_seconds
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

    A trial that its sweep reuses after it has failed there counts as reused.
    """
    sweep = sweep_of(session, event.sweep, journal).id
    if isinstance(event, TrialStarted) and take_new(session, SweepTrialRecord, sweep, trial.id):
        return
    place, own = {"sweep": sweep, "trial": trial.id, "number": event.number}, None
    for held in session.scalars(_LINKS, place).all():
        if held.trial_id == trial.id:
            own = held
        else:
            known_records(session).pop((SweepTrialRecord, sweep, held.trial_id), None)
            session.delete(held)
            session.flush()
    if own is None:
        key = {"sweep_id": sweep, "trial_id": trial.id}
        insert_record(session, SweepTrialRecord, key, {"gpu_seconds": 0.0, **_make_link(event)})
        return
    own.search_number = event.search_number  # another attempt has a number of its own
    if isinstance(event, TrialReused):
        own.reused, own.reused_from = event.time, event.reused_from


def _make_link(event: TrialBegun) -> dict[str, Any]:
    reused = event if isinstance(event, TrialReused) else None
    return {
        "number": event.number,
        "role": event.role,
        "search_number": event.search_number,
        "reused": None if reused is None else reused.time,
        "reused_from": None if reused is None else reused.reused_from,
    }
