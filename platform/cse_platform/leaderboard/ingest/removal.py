"""Removes a sweep from the store, and what `clean` finds too old.

The rows of a sweep and of its trials go by cascade; trials that other sweeps hold too are kept.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, func, literal, select, update
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
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepStartRecord,
    SweepTrialRecord,
    TestAccessRecord,
    TrialRecord,
)
from cse_platform.leaderboard.trial_references import best_kept_trial
from cse_platform.leaderboard.trials import used_elsewhere
from cse_platform.tracking.events import Annotatable

_BATCH = 500
"""Names per query; databases limit the number of query parameters."""


@dataclass(frozen=True)
class SweepContent:
    """What removing a sweep would delete, and what else depends on it."""

    rows: Mapping[str, int]
    """Numbers of rows to delete, by their kind."""
    cosines: int
    """Size of the similarities to delete, in bytes."""
    trials: Mapping[str, str | None]
    """The kept model of each trial to delete, by its key; None if none was kept."""
    annotated: tuple[tuple[Annotatable, str], ...]
    """The trials, configurations and sweep to delete that have notes, tags or stars, by name."""
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


def find_content(session: Session, name: str) -> SweepContent:
    """Find everything that the store has of a sweep, which may be nothing."""
    if (sweep := sweep_or_none(session, name)) is None:
        return SweepContent({}, 0, {}, (), {}, frozenset(), (), (), 0)
    going = _select_going(sweep.id)
    of_trials: dict[str, type[Any]] = {
        "dev points": DevPointRecord,
        "scores": ScoreRecord,
        "similarities": PairSimilaritiesRecord,
    }
    trials = select(TrialRecord.key, TrialRecord.model).where(TrialRecord.id.in_(going))
    models: dict[str, str | None] = {row[0]: row[1] for row in session.execute(trials)}
    annotated = tuple(_find_annotated(session, sweep, going))
    rows = {
        "trials": len(models),
        **{
            kind: _count_rows(session, table, table.trial_id.in_(going))
            for kind, table in of_trials.items()
        },
        "trials, configurations and sweeps with notes": len(annotated),
        "messages": _count_rows(
            session, DriverMessageRecord, DriverMessageRecord.sweep_id == sweep.id
        ),
        "requests": _count_rows(session, SweepRequestRecord, SweepRequestRecord.sweep == name),
    }
    size = func.sum(func.length(PairSimilaritiesRecord.cosines))
    cosines = session.scalar(select(size).where(PairSimilaritiesRecord.trial_id.in_(going)))
    tested = func.count(TestAccessRecord.trial_id.distinct())
    return SweepContent(
        rows=rows,
        cosines=int(cosines or 0),
        trials=models,
        annotated=annotated,
        shared=_count_shared(session, sweep.id),
        needed_models=frozenset(used_elsewhere(session, [*models], sweep=name)),
        leads=tuple(_find_leads(session, going, models)),
        builds_on=tuple(_find_builders(session, name)),
        tested=session.scalar(select(tested).where(TestAccessRecord.trial_id.in_(going))) or 0,
    )


def remove_cursors(session: Session, journals: Collection[str]) -> None:
    """Delete the cursors of these journals."""
    session.execute(delete(JournalCursorRecord).where(JournalCursorRecord.journal.in_(journals)))


def remove_sweep(session: Session, name: str, journals: Collection[str]) -> None:
    """Delete a sweep, the trials that no other sweep holds, and rows that nothing refers to then.

    Trials that are kept lose the GPU time that they took in this sweep. `journals` are the ids of
    its journals.
    """
    if (sweep := sweep_or_none(session, name)) is not None:
        of_sweep = SweepTrialRecord.sweep_id == sweep.id
        held = session.execute(
            select(TrialRecord.id, TrialRecord.configuration_id)
            .join(TrialRecord.places)
            .where(of_sweep)
        ).all()
        session.execute(delete(TrialRecord).where(TrialRecord.id.in_(_select_going(sweep.id))))
        session.execute(delete(SweepRecord).where(SweepRecord.id == sweep.id))
        session.expire_all()
        for start in range(0, len(held), _BATCH):
            batch = held[start : start + _BATCH]
            _recount_trials(session, [row[0] for row in batch], {row[1] for row in batch})
    remove_cursors(session, journals)
    session.execute(delete(EarlyEventRecord).where(EarlyEventRecord.journal.in_(journals)))
    session.execute(delete(SweepRequestRecord).where(SweepRequestRecord.sweep == name))
    _remove_unused(session)


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


def remove_old_messages(session: Session, before: datetime) -> None:
    """Remove the messages of all drivers from before a time."""
    session.execute(delete(DriverMessageRecord).where(DriverMessageRecord.time < before))


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


def _remove_unused(session: Session) -> None:
    """Delete machines, gold scores and evaluation settings that no row refers to."""
    users: list[tuple[Any, list[Any]]] = [
        (MachineRecord.id, [TrialRecord.machine_id]),
        (PairSetRecord.data_sha256, [PairSimilaritiesRecord.data_sha256]),
        (EvaluationRecord.identity, [ScoreRecord.identity, PairSimilaritiesRecord.identity]),
    ]
    for named, by in users:
        used = (named.not_in(select(column).where(column.is_not(None))) for column in by)
        session.execute(delete(named.class_).where(*used))


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
    sums = func.count(), func.sum(TrialRecord.gpu_seconds)
    counted = {
        configuration: (count, seconds)
        for configuration, count, seconds in session.execute(
            select(TrialRecord.configuration_id, *sums)
            .where(TrialRecord.configuration_id.in_(configurations))
            .group_by(TrialRecord.configuration_id)
        )
    }
    empty = sorted({*configurations} - {*counted})
    session.execute(delete(ConfigurationRecord).where(ConfigurationRecord.id.in_(empty)))
    count_complete(session, counted)
    for configuration, (count, seconds) in counted.items():
        record = session.get_one(ConfigurationRecord, configuration)
        record.trials, record.gpu_seconds = count, seconds
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


def _find_annotated(
    session: Session, sweep: SweepRecord, going: Any
) -> Iterator[tuple[Annotatable, str]]:
    """Yield what is annotated of a sweep and goes with it; a configuration goes with its seeds."""
    staying = select(TrialRecord.configuration_id).where(TrialRecord.id.not_in(going))
    seeds = select(TrialRecord.configuration_id).where(TrialRecord.id.in_(going))
    names: dict[Annotatable, Any] = {
        "trial": select(TrialRecord.key).where(TrialRecord.id.in_(going)),
        "configuration": select(ConfigurationRecord.hash).where(
            ConfigurationRecord.id.in_(seeds), ConfigurationRecord.id.not_in(staying)
        ),
        "sweep": select(literal(sweep.name)),
    }
    for about, which in names.items():
        known = select(AnnotationRecord.name).where(
            AnnotationRecord.about == about,
            AnnotationRecord.name.in_(which),
            AnnotationRecord.stands.is_(True),
        )
        yield from ((about, name) for name in session.scalars(known.distinct()))


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
