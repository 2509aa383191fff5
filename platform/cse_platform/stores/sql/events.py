"""Stores the events of journals in the tables of the leaderboard, also those that come early."""

import logging
from collections import defaultdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.errors import StoreLostError
from cse_platform.secrets import mask_text
from cse_platform.stores.sql import tables
from cse_platform.stores.sql.keyed_rows import (
    find_attempts,
    insert_once,
    is_complete,
    sweep_of,
    trial_of,
    trial_or_none,
)
from cse_platform.stores.sql.pending_writes import (
    PendingWrites,
    collect_writes,
)
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.sweep_events import (
    add_annotation,
    mark_cut_off,
    start_sweep,
    take_request,
)
from cse_platform.stores.sql.trial_events import (
    add_evaluation,
    add_points,
    finish_trial,
    link,
    start_trial,
    store_reused,
)
from cse_platform.tracking import events

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
            mark_cut_off(session, journal, sweep.id)
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
