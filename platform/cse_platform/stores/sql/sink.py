"""Applies the events of journals to the leaderboard, each event once, and removes sweeps from it.

The rows of a sweep and of its trials go by cascade; trials that other sweeps hold too are kept.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import delete, exists, func, literal, select, update
from sqlalchemy.orm import Session, aliased

from cse_platform.errors import JournalError, StoreDownError, StoreError, StoreLostError
from cse_platform.secrets import mask_text
from cse_platform.stores.sql.attempts import find_attempts, is_complete, trial_of, trial_or_none
from cse_platform.stores.sql.estimates import estimate_configurations
from cse_platform.stores.sql.lease import Lease, take_request
from cse_platform.stores.sql.store import SLICE_ROWS, Store
from cse_platform.stores.sql.tables import (
    AnnotationRecord,
    AttemptRecord,
    ConfigurationRecord,
    DriverMessageRecord,
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
    TestAccessRecord,
    TrialRecord,
    in_batches,
    insert_once,
    known_records,
    sweep_of,
    sweep_or_none,
)
from cse_platform.stores.sql.trial_events import (
    Held,
    add_evaluation,
    add_identities,
    add_points,
    finish_trial,
    holding,
    link,
    start_trial,
    store_reused,
    store_starts,
)
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import (
    EVENT,
    AnnotationWritten,
    DriverMessage,
    Event,
    ModelDeleted,
    SearchEnded,
    SweepFinished,
    SweepRequested,
    SweepStarted,
    TestAccessed,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialStarted,
)
from cse_platform.tracking.history import stored_dev
from cse_platform.tracking.journal import read_journal, read_journal_id, refuse_older_copy
from cse_platform.tracking.recorder import Sink

_log = logging.getLogger(__name__)

Entry = tuple[int, Event]
"""An event of a journal, and the offset where it ends."""
Change = Callable[[int, Event], Event | None]
"""Applied to the offset where an event ends and the event; returns None if it is left out."""


def _keep_event(_: int, event: Event) -> Event:
    return event


def _trials_with_held_back(session: Session) -> set[str]:
    """Return the keys of the trials for which events are held back; a session asks once."""
    known = known_records(session)
    if (EarlyEventRecord,) not in known:
        known[EarlyEventRecord,] = {*session.scalars(select(EarlyEventRecord.trial).distinct())}
    held: set[str] = known[EarlyEventRecord,]
    return held


def store_reused_trials(leaderboard: Store) -> None:
    """Complete the trials that journals reuse and none has completed, because that one is gone."""
    with leaderboard.writing() as session, holding(session):
        held = session.execute(select(EarlyEventRecord.journal, EarlyEventRecord.event)).all()
        events = [(journal, EVENT.validate_json(text)) for journal, text in held]
        for journal, event in sorted(events, key=lambda entry: entry[1].time):
            if not isinstance(event, TrialReused):
                continue
            trial = trial_or_none(session, event.trial)
            if trial is None or not is_complete(session, trial):
                store_reused(session, journal, event)
                _apply_held_back(session, event.trial)


def add_annotation(session: Session, event: AnnotationWritten) -> None:
    """Store the annotation changes of an event, except those for which a later change is stored.

    Storing an event twice changes nothing.
    """
    for field, word, text, stands in event.changes:
        new = AnnotationRecord(
            about=event.about,
            name=event.name,
            field=field,
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


CONTRADICTIONS = (StoreLostError, LookupError, TypeError, ValueError, OverflowError)
"""Errors raised by an event that contradicts the store; a retry would fail again."""


class LeaderboardSink:
    """The SQL leaderboard as a sink: a batch and its cursor are written in one transaction.

    Given the lease of the sweep's driver, it refuses to write once another driver holds the sweep.
    """

    name = "leaderboard"
    can_be_refilled = False
    rest = 1.0  # a transaction for each event would take a driver of short trials twice the time

    def __init__(self, leaderboard: Store, lease: Lease | None = None) -> None:
        self._leaderboard, self._lease = leaderboard, lease
        self._positions: dict[str, int] = {}
        """The last known position of each journal."""
        self._told: set[str] = set()
        """Reasons that were already logged, so that each is logged only once."""

    def position(self, journal: str) -> int:
        """Return the end offset of the last event applied from this journal; 0 if it is new.

        A leaderboard that was deleted since it was opened is made anew.
        """
        try:
            with self._leaderboard.session() as session:
                position = _read_position(session, journal)
        except StoreError as error:
            if not self._leaderboard.make_if_missing():
                raise
            lost = (
                "%s; a new one is filled with this journal; cse-leaderboard rebuild adds the rest"
            )
            _log.warning(lost, mask_text(str(error)))
            position = 0
        self._positions[journal] = position
        return position

    def apply(self, journal: str, entries: Sequence[tuple[int, Event]]) -> None:
        """Apply these events, except those that contradict the store.

        Those are skipped with a warning, because a retry would fail again and hold up all later
        events. Only `TestAccessed` is never skipped.

        Raises:
            StoreError: if the database is down or damaged, or an older copy has taken its place
                since `position`; then nothing is applied.
            LeaseLostError: if another driver has taken over the sweep.
        """
        after = self._positions.get(journal, 0)
        try:
            self.apply_whole(journal, entries, after=after)
        except CONTRADICTIONS as error:
            if len(entries) > 1:
                middle = len(entries) // 2
                self.apply(journal, entries[:middle])
                self.apply(journal, entries[middle:])
                return
            [(end, event)] = entries
            if isinstance(event, TestAccessed):
                raise
            with self._leaderboard.writing() as session:
                session.merge(JournalCursorRecord(journal=journal, position=end))
            reason = str(error) or repr(error)
            if reason not in self._told:
                self._told.add(reason)
                says = "sweep %s: the leaderboard skips a %s, which stays in the journal: %s"
                _log.warning(says, event.sweep, event.kind, mask_text(reason))
        if entries:
            self._positions[journal] = entries[-1][0]

    def apply_whole(self, journal: str, entries: Sequence[Entry], *, after: int = 0) -> None:
        """Apply the entries after the journal's stored position, and advance it, or do nothing.

        What was applied before is skipped; `after` is the position that the first entry follows.
        Raises StoreLostError also if an event contradicts the store.
        """
        with self._leaderboard.writing() as session:
            if self._lease is not None:
                self._lease.renew(session)
            position = _read_position(session, journal)
            if position < after:
                raise StoreDownError("the leaderboard was replaced by an older copy")
            news = [entry for entry in entries if entry[0] > position]
            begun = [e for _, e in news if isinstance(e, SweepStarted | TrialStarted)]
            starts = [  # those of each launch
                [event for event in some if isinstance(event, TrialStarted)]
                for kind, some in groupby(begun, type)
                if kind is TrialStarted
            ]
            with holding(session):
                kinds = groupby(news, lambda entry: isinstance(entry[1], TrialPoint))
                for are_points, some in kinds:
                    if are_points:
                        points = [event for _, event in some if isinstance(event, TrialPoint)]
                        add_points(session, journal, points)
                        continue
                    for end, event in some:
                        if starts and event is starts[0][0]:
                            store_starts(session, journal, starts.pop(0))
                        apply_event(session, journal, end, event)
            reached = news[-1][0] if news else position
            session.merge(JournalCursorRecord(journal=journal, position=reached))


def apply_journal(
    sink: Sink,
    path: Path,
    after_slice: Callable[[int], None] = lambda end: None,
    *,
    change: Change = _keep_event,
    rows: int = SLICE_ROWS,
) -> None:
    """Apply to a sink what it lacks of a journal, in slices of so many events.

    `after_slice` is called after each slice, with the offset that it has reached; `change` is
    applied to each event. A sink that has more than the journal, of which this is then an older
    copy, gets it from the beginning if it can.

    Raises JournalError if the journal is damaged, of a newer version, or an older copy; what
    precedes the damage is applied before.
    """
    journal = read_journal_id(path)
    position = sink.position(journal)
    try:
        refuse_older_copy(path, position)
    except JournalError:
        if not sink.can_be_refilled:
            raise
        position = 0
    damage = list[JournalError]()

    def read_until_damage() -> Iterator[Entry]:
        try:
            for end, event in read_journal(path, offset=position):
                if (changed := change(end, event)) is not None:
                    yield end, changed
        except JournalError as error:
            damage.append(error)

    entries = read_until_damage()
    while some := list(islice(entries, rows)):
        sink.apply(journal, some)
        after_slice(some[-1][0])
    for error in damage:
        raise error


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
                _apply_held_back(session, event.trial)
        case TrialPoint():
            add_points(session, journal, [event])
        case TrialFinished():
            finish_trial(session, journal, event)
            if event.state == "COMPLETE":
                _apply_held_back(session, event.trial)
        case ModelDeleted():
            trial = trial_of(session, event.trial)
            for attempt in find_attempts(session, journal, [trial]).values():
                attempt.model, attempt.model_deleted = None, event.time
        case TrialReused() | TestAccessed() | TrialEvaluated():
            _apply_or_hold_back(session, journal, position, event)


def _apply_held_back(session: Session, key: str) -> None:
    """Apply the events that are held back for a trial, and no longer have to be.

    Those that contradict the store are skipped and logged.
    """
    if key not in _trials_with_held_back(session):
        return
    trial, of_trial = trial_of(session, key), EarlyEventRecord.trial == key
    order = EarlyEventRecord.journal, EarlyEventRecord.position
    for held in session.scalars(select(EarlyEventRecord).where(of_trial).order_by(*order)).all():
        event = EVENT.validate_json(held.event)
        if isinstance(event, TrialReused) and not is_complete(session, trial):
            continue
        session.delete(held)
        try:
            with session.begin_nested():
                apply_event(session, held.journal, held.position, event)
        except CONTRADICTIONS as error:
            if isinstance(event, TestAccessed):
                raise
            reason = mask_text(str(error) or repr(error))
            _log.warning("sweep %s: a %s is left out: %s", event.sweep, event.kind, reason)


def _apply_or_hold_back(
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
        _trials_with_held_back(session).add(event.trial)
        return
    match event:
        case TrialReused():
            link(session, journal, event, trial)
        case TestAccessed():
            key = {"trial_id": trial.id, "opened": event.time, "who": event.who}
            details = {"command": event.command, "tasks": list(event.tasks), "source": event.source}
            insert_once(session, TestAccessRecord, key, details)
        case TrialEvaluated():
            add_identities(session, event)
            add_evaluation(session, journal, event)


def _read_position(session: Session, journal: str) -> int:
    cursor = session.get(JournalCursorRecord, journal)
    return 0 if cursor is None else cursor.position


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
    if sweep.confirms_all != before:  # other seeds estimate its configurations
        of_sweep = select(TrialRecord.configuration_id).join(TrialRecord.places).distinct()
        of_sweep = of_sweep.where(SweepTrialRecord.sweep_id == sweep.id)
        session.info[Held].configurations |= set(session.scalars(of_sweep))
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
        sweep.confirms_all = known.confirms_all
        sweep.budget = known.search.budget.model_dump(mode="json") if known.search.budget else {}


def known_journals(session: Session) -> set[str]:
    """Return the ids of the journals from which the leaderboard has something."""
    return set(session.scalars(select(JournalCursorRecord.journal)))


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
        (MachineRecord.id, [AttemptRecord.machine_id]),
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
    estimate_configurations(session, configurations)
    session.flush()
    for group in groups:
        of_group = select(TrialRecord).join(TrialRecord.configuration)
        of_group = of_group.where(ConfigurationRecord.group_id == group)
        sums = of_group.with_only_columns(func.count(), func.sum(TrialRecord.gpu_seconds))
        count, seconds = session.execute(sums).one()
        if not count:
            session.execute(delete(GroupRecord).where(GroupRecord.id == group))
            continue
        newest = of_group.join(AttemptRecord, AttemptRecord.trial_id == TrialRecord.id)
        newest = newest.where(AttemptRecord.started.is_not(None))
        newest = newest.order_by(AttemptRecord.started.desc()).limit(1)
        code = newest.with_only_columns(ConfigurationRecord.code, AttemptRecord.started)
        record = session.get_one(GroupRecord, group)
        record.trials, record.gpu_seconds = count, seconds
        record.code, record.code_since = session.execute(code).one()
        session.flush()


def select_going(sweep: int) -> Any:
    """Select the ids of a sweep's trials that no other sweep holds."""
    mine, other = SweepTrialRecord, aliased(SweepTrialRecord)
    shared = exists(literal(1)).where(
        other.trial_id == mine.trial_id, other.sweep_id != mine.sweep_id
    )
    return select(mine.trial_id).where(mine.sweep_id == sweep, ~shared.correlate(mine))
