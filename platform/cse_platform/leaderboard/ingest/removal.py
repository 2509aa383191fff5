"""Removes a sweep from the store in slices, so that other writers never wait long.

Trials that other sweeps hold too are kept. The row of the sweep is deleted last: a removal that was
killed is completed by running it again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, func, literal, select, tuple_
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.ingest.attempts import count_complete
from cse_platform.leaderboard.stored_sweeps import sweep_or_none
from cse_platform.leaderboard.tables import (
    AnnotationRecord,
    Base,
    ConfigurationRecord,
    DevPointRecord,
    DriverMessageRecord,
    EarlyEventRecord,
    EvaluationRecord,
    GroupRecord,
    JournalCursorRecord,
    MachineRecord,
    OtherAttemptRecord,
    OtherPointRecord,
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    SweepLeaseRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepStartRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TestAccessRecord,
    TrialRecord,
)
from cse_platform.leaderboard.trial_references import best_kept_trial
from cse_platform.leaderboard.trials import used_elsewhere
from cse_platform.tracking.events import Annotatable

SLICE_POINTS = 5000
"""Dev points deleted in one transaction, unless one trial alone has more."""
_SLICE_TRIALS = 200
_SLICE_MESSAGES = 500

_OF_TRIAL: tuple[Any, ...] = (
    OtherPointRecord,
    OtherAttemptRecord,
    DevPointRecord,
    ScoreRecord,
    PairSimilaritiesRecord,
    TestAccessRecord,
)
"""Tables with rows of a trial, in an order of deletion that foreign keys allow."""


@dataclass(frozen=True)
class SweepContent:
    """What removing a sweep would delete, and what else depends on it."""

    spec: Mapping[str, Any]
    """The sweep file as JSON; empty if the sweep never started."""
    journals: frozenset[str]
    """Ids of the journals with events of the sweep."""
    rows: Mapping[str, int]
    """Numbers of rows to delete, by their kind."""
    cosines: int
    """Size of the similarities to delete, in bytes."""
    shared: Mapping[str, int]
    """Number of trials to keep, by the other sweep that holds them."""
    needed_models: frozenset[str]
    """Keys of trials to delete whose models were used to train other trials."""
    leads: tuple[tuple[str, str], ...]
    """Methods and backbones whose best kept model belongs to a trial to delete."""
    builds_on: tuple[str, ...]
    """Other sweeps whose search learned from this one, or that took a value from its results."""
    tested: int
    """Number of trials to delete for which test sets were opened."""


@dataclass(frozen=True)
class HeldTrial:
    """A trial of a sweep to be removed."""

    id: int
    key: str
    model: str | None
    will_be_deleted: bool
    """Whether to delete the trial, as no other sweep holds it."""


def find_content(session: Session, name: str) -> SweepContent | None:
    """Find everything that the store has of a sweep; None if it has nothing of that name."""
    sweep, lease = sweep_or_none(session, name), session.get(SweepLeaseRecord, name)
    if sweep is None:
        if lease is None:
            return None
        journals = frozenset({lease.journal} - {""})
        return SweepContent({}, journals, {}, 0, {}, frozenset(), (), (), 0)
    going = _select_going(sweep.id)
    rows = {
        "trials": _count_rows(session, TrialRecord, TrialRecord.id.in_(going)),
        "dev points": sum(
            _count_rows(session, table, table.trial_id.in_(going))
            for table in (DevPointRecord, OtherPointRecord)
        ),
        "scores": _count_rows(session, ScoreRecord, ScoreRecord.trial_id.in_(going)),
        "similarities": _count_rows(
            session, PairSimilaritiesRecord, PairSimilaritiesRecord.trial_id.in_(going)
        ),
        "notes, tags and stars": _count_annotations(session, sweep, going),
        "messages": _count_rows(
            session, DriverMessageRecord, DriverMessageRecord.sweep_id == sweep.id
        ),
        "requests": _count_rows(session, SweepRequestRecord, SweepRequestRecord.sweep == name),
    }
    size = func.sum(func.length(PairSimilaritiesRecord.cosines))
    cosines = session.scalar(select(size).where(PairSimilaritiesRecord.trial_id.in_(going)))
    tested = func.count(TestAccessRecord.trial_id.distinct())
    keys = session.scalars(select(TrialRecord.key).where(TrialRecord.id.in_(going))).all()
    return SweepContent(
        spec=sweep.spec,
        journals=frozenset(_find_journals(session, sweep, lease, going)),
        rows=rows,
        cosines=int(cosines or 0),
        shared=_count_shared(session, sweep.id),
        needed_models=frozenset(used_elsewhere(session, keys, sweep=name)),
        leads=tuple(_find_leads(session, going, keys)),
        builds_on=tuple(_find_builders(session, name)),
        tested=session.scalar(select(tested).where(TestAccessRecord.trial_id.in_(going))) or 0,
    )


def remove_cursors(session: Session, journals: Collection[str]) -> None:
    """Delete the cursors of these journals.

    If the sweep is started again before its removal is complete, its journal is applied from the
    start.
    """
    session.execute(delete(JournalCursorRecord).where(JournalCursorRecord.journal.in_(journals)))


def next_slice(session: Session, name: str, *, after: int = 0) -> list[HeldTrial]:
    """Find the next trials of a sweep whose rows fit one transaction; empty at the end.

    Trials are in order of id; `after` is the id of the last trial of the previous slice.
    """
    if (sweep := sweep_or_none(session, name)) is None:
        return []
    shown, other = (
        select(func.count()).where(table.trial_id == TrialRecord.id).scalar_subquery()
        for table in (DevPointRecord, OtherPointRecord)
    )
    query = (
        select(TrialRecord.id, TrialRecord.key, TrialRecord.model, _is_shared(), shown + other)
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == TrialRecord.id)
        .where(SweepTrialRecord.sweep_id == sweep.id, TrialRecord.id > after)
        .order_by(TrialRecord.id)
        .limit(_SLICE_TRIALS)
    )
    slice_, total = list[HeldTrial](), 0
    for id_, key, model, shared, count in session.execute(query):
        total += count
        if slice_ and total > SLICE_POINTS:
            break
        slice_.append(HeldTrial(id_, key, model, will_be_deleted=not shared))
    return slice_


def remove_trials(
    session: Session, name: str, trials: Sequence[HeldTrial], journals: Collection[str]
) -> None:
    """Remove trials from a sweep, and delete those that no other sweep holds.

    The counters of their configurations and groups are recomputed. Trials that are kept lose the
    hidden attempts of these journals, and the GPU time that they took in this sweep.
    """
    sweep = sweep_or_none(session, name)
    if sweep is None:
        return
    everything = [trial.id for trial in trials]
    going = [trial.id for trial in trials if trial.will_be_deleted]
    staying = [trial.id for trial in trials if not trial.will_be_deleted]
    of_these = select(TrialRecord.configuration_id).where(TrialRecord.id.in_(everything))
    configurations = set(session.scalars(of_these))
    held = SweepTrialRecord.trial_id.in_(everything)
    session.execute(delete(SweepTrialRecord).where(SweepTrialRecord.sweep_id == sweep.id, held))
    for table in _OF_TRIAL:
        session.execute(delete(table).where(table.trial_id.in_(going)))
    _remove_annotations(session, "trial", [trial.key for trial in trials if trial.will_be_deleted])
    session.execute(delete(TrialRecord).where(TrialRecord.id.in_(going)))
    for told in (OtherPointRecord, OtherAttemptRecord):
        of_journals = told.trial_id.in_(staying), told.journal.in_(journals)
        session.execute(delete(told).where(*of_journals))
    for trial in staying:
        spent = select(func.sum(SweepTrialRecord.gpu_seconds)).filter_by(trial_id=trial)
        session.get_one(TrialRecord, trial).gpu_seconds = session.scalar(spent) or 0.0
    session.flush()
    _recount_trials(session, configurations)


def remove_messages(session: Session, journal: str) -> int:
    """Remove as many messages of a journal as fit one transaction. Returns how many."""
    position, of_journal = DriverMessageRecord.position, DriverMessageRecord.journal == journal
    first = select(position).where(of_journal).order_by(position).limit(_SLICE_MESSAGES)
    positions = session.scalars(first).all()
    if positions:
        upto = position <= positions[-1]
        session.execute(delete(DriverMessageRecord).where(of_journal, upto))
    return len(positions)


def find_old_requests(session: Session, before: datetime) -> list[int]:
    """Find the ids of requests that were made before a time and have no further effect.

    A request that no driver has taken waits for the next start, unless it is a stop. A taken
    request still has an effect if it enqueued a configuration, or is the last pause or resume of
    its sweep.
    """
    old, paused = list[int](), dict[str, int]()
    for record in session.scalars(select(SweepRequestRecord).order_by(SweepRequestRecord.id)):
        action = record.event.get("action")
        if action == "enqueue" or (record.taken is None and action != "stop"):
            continue
        if action in ("pause", "resume"):
            paused[record.sweep] = record.id
        if datetime.fromisoformat(record.event["time"]) < before:
            old.append(record.id)
    return sorted({*old} - {*paused.values()})


def remove_requests(session: Session, ids: Collection[int]) -> None:
    """Remove these requests."""
    session.execute(delete(SweepRequestRecord).where(SweepRequestRecord.id.in_(ids)))


def count_old_messages(session: Session, before: datetime) -> int:
    """Count the messages of all drivers from before a time."""
    return _count_rows(session, DriverMessageRecord, DriverMessageRecord.time < before)


def remove_old_messages(session: Session, before: datetime) -> int:
    """Remove as many messages from before a time as fit one transaction. Returns how many."""
    journal, position = DriverMessageRecord.journal, DriverMessageRecord.position
    old = select(journal, position).where(DriverMessageRecord.time < before)
    keys = [(row.journal, row.position) for row in session.execute(old.limit(_SLICE_MESSAGES))]
    if keys:
        these = tuple_(journal, position).in_(keys)
        session.execute(delete(DriverMessageRecord).where(these))
    return len(keys)


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


def remove_sweep(session: Session, name: str, journals: Collection[str]) -> None:
    """Delete the rows of a sweep without trials, and rows that nothing refers to any more."""
    if (sweep := sweep_or_none(session, name)) is not None:
        of_sweep: list[type[Any]] = [SweepStartRecord, SweepTagRecord, DriverMessageRecord]
        for table in of_sweep:
            session.execute(delete(table).where(table.sweep_id == sweep.id))
    remove_cursors(session, journals)
    session.execute(delete(EarlyEventRecord).where(EarlyEventRecord.journal.in_(journals)))
    session.execute(delete(SweepRequestRecord).where(SweepRequestRecord.sweep == name))
    _remove_annotations(session, "sweep", [name])
    session.execute(delete(SweepRecord).where(SweepRecord.name == name))
    _remove_unused(session)


def _remove_unused(session: Session) -> None:
    """Delete machines, gold scores and evaluation settings that no row refers to."""
    users: list[tuple[Any, list[Any]]] = [
        (MachineRecord.id, [TrialRecord.machine_id, OtherAttemptRecord.machine_id]),
        (PairSetRecord.data_sha256, [PairSimilaritiesRecord.data_sha256]),
        (EvaluationRecord.identity, [ScoreRecord.identity, PairSimilaritiesRecord.identity]),
    ]
    for named, by in users:
        used = (named.not_in(select(column).where(column.is_not(None))) for column in by)
        session.execute(delete(named.class_).where(*used))


def _recount_trials(session: Session, configurations: Collection[int]) -> None:
    """Recompute the counters of configurations and of their groups; delete those without trials."""
    of_these = ConfigurationRecord.id.in_(configurations)
    groups = set(session.scalars(select(ConfigurationRecord.group_id).where(of_these)))
    sums = func.count(), func.sum(TrialRecord.gpu_seconds)
    counted = {
        configuration: (trials, seconds)
        for configuration, trials, seconds in session.execute(
            select(TrialRecord.configuration_id, *sums)
            .where(TrialRecord.configuration_id.in_(configurations))
            .group_by(TrialRecord.configuration_id)
        )
    }
    empty = sorted({*configurations} - {*counted})
    hashes = select(ConfigurationRecord.hash).where(ConfigurationRecord.id.in_(empty))
    _remove_annotations(session, "configuration", session.scalars(hashes).all())
    session.execute(delete(ConfigurationRecord).where(ConfigurationRecord.id.in_(empty)))
    count_complete(session, counted)
    for configuration, (trials, seconds) in counted.items():
        record = session.get_one(ConfigurationRecord, configuration)
        record.trials, record.gpu_seconds = trials, seconds
    session.flush()
    for group in groups:
        _recount_group(session, group)


def _recount_group(session: Session, group: int) -> None:
    of_group = ConfigurationRecord.group_id == group
    sums = func.sum(ConfigurationRecord.trials), func.sum(ConfigurationRecord.gpu_seconds)
    trials, seconds = session.execute(select(*sums).where(of_group)).one()
    if trials is None:
        session.execute(delete(GroupRecord).where(GroupRecord.id == group))
        return
    newest = (
        select(ConfigurationRecord.code, TrialRecord.started)
        .join(TrialRecord.configuration)
        .where(of_group)
        .order_by(TrialRecord.started.desc())
        .limit(1)
    )
    record = session.get_one(GroupRecord, group)
    record.trials, record.gpu_seconds = trials, seconds
    record.code, record.code_since = session.execute(newest).one()
    session.flush()


def _select_going(sweep: int) -> Any:
    """Select the ids of a sweep's trials that no other sweep holds."""
    mine = SweepTrialRecord.sweep_id == sweep
    return select(SweepTrialRecord.trial_id).where(mine, ~_is_shared())


def _is_shared() -> ColumnElement[bool]:
    """Match trials of a sweep that another sweep holds too."""
    other = aliased(SweepTrialRecord)
    return (
        exists(literal(1))
        .where(
            other.trial_id == SweepTrialRecord.trial_id, other.sweep_id != SweepTrialRecord.sweep_id
        )
        .correlate(SweepTrialRecord)
    )


def _count_rows(session: Session, table: type[Base], *which: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count()).select_from(table).where(*which)) or 0


def _count_annotations(session: Session, sweep: SweepRecord, going: Any) -> int:
    keys = select(TrialRecord.key).where(TrialRecord.id.in_(going))
    about = AnnotationRecord.about
    of_trials = (about == "trial") & AnnotationRecord.name.in_(keys)
    of_sweep = (about == "sweep") & (AnnotationRecord.name == sweep.name)
    return _count_rows(
        session, AnnotationRecord, AnnotationRecord.stands.is_(True), of_trials | of_sweep
    )


def _remove_annotations(session: Session, about: Annotatable, names: Sequence[str]) -> None:
    which = AnnotationRecord.about == about, AnnotationRecord.name.in_(names)
    session.execute(delete(AnnotationRecord).where(*which))


def _count_shared(session: Session, sweep: int) -> dict[str, int]:
    mine = aliased(SweepTrialRecord)
    query = (
        select(SweepRecord.name, func.count())
        .join(SweepTrialRecord, SweepTrialRecord.sweep_id == SweepRecord.id)
        .join(mine, mine.trial_id == SweepTrialRecord.trial_id)
        .where(mine.sweep_id == sweep, SweepRecord.id != sweep)
        .group_by(SweepRecord.name)
        .order_by(SweepRecord.name)
    )
    return {row[0]: row[1] for row in session.execute(query)}


def _find_journals(
    session: Session, sweep: SweepRecord, lease: SweepLeaseRecord | None, going: Any
) -> set[str]:
    """Find the journals with events of a sweep: its starts, messages and trials."""
    told: list[tuple[Any, Any]] = [
        (DriverMessageRecord.journal, DriverMessageRecord.sweep_id == sweep.id),
        (TrialRecord.journal, TrialRecord.id.in_(going)),
        (OtherAttemptRecord.journal, OtherAttemptRecord.trial_id.in_(going)),
    ]
    journals = {sweep.journal, "" if lease is None else lease.journal}
    for column, which in told:
        journals.update(session.scalars(select(column).where(which).distinct()))
    return journals - {""}


def _find_leads(session: Session, going: Any, keys: Collection[str]) -> list[tuple[str, str]]:
    """Find the methods and backbones whose best kept model belongs to one of these trials."""
    groups = (
        select(GroupRecord.method, GroupRecord.backbone, GroupRecord.dev_identity)
        .join(GroupRecord.configurations)
        .join(ConfigurationRecord.seeds)
        .where(TrialRecord.id.in_(going))
        .distinct()
    )
    known, leads = {*keys}, []
    for method, backbone, identity in session.execute(groups):
        best = best_kept_trial(session, method=method, backbone=backbone, dev_identity=identity)
        if best is not None and best.key in known:
            leads.append((method, backbone))
    return sorted(leads)


def _find_builders(session: Session, name: str) -> list[str]:
    """Find the other sweeps whose search learned from a sweep, or that took a value from its
    results.
    """
    others = SweepRecord.name != name
    specs = session.execute(select(SweepRecord.name, SweepRecord.spec).where(others))
    searches = {other: spec.get("search") for other, spec in specs}
    learned = {
        other
        for other, search in searches.items()
        if isinstance(search, Mapping) and name in (search.get("learn_from") or ())
    }
    starts = select(SweepRecord.name, SweepStartRecord.provenance).join(SweepRecord.starts)
    took = {
        other
        for other, facts in session.execute(starts.where(others))
        for fact, text in facts.items()
        if fact.startswith("fixed.") and f" of {name!r}" in str(text)
    }
    return sorted(learned | took)
