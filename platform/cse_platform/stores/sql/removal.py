"""Removes a sweep from the store, and what `clean` finds too old.

The rows of a sweep and of its trials go by cascade; trials that other sweeps hold too are kept.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import delete, exists, func, literal, select, update
from sqlalchemy.orm import Session, aliased

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
    SweepTrialRecord,
    TrialRecord,
    in_batches,
    sweep_or_none,
)
from cse_platform.stores.sql.trial_events import count_complete


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


def find_old_requests(session: Session, before: datetime) -> list[int]:
    """Find the ids of requests that were made before a time and have no further effect.

    A request that no driver has taken waits for the next start, unless it is a stop. A taken
    request still has an effect if it enqueued a configuration.
    """
    old = list[int]()
    for record in session.scalars(select(SweepRequestRecord).order_by(SweepRequestRecord.id)):
        action = record.event.get("action")
        if action == "enqueue" or (record.taken is None and action != "stop"):
            continue
        if datetime.fromisoformat(record.event["time"]) < before:
            old.append(record.id)
    return old


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
        counted_record = session.get_one(ConfigurationRecord, configuration)
        counted_record.trials, counted_record.gpu_seconds = count, seconds
    session.flush()
    for group in groups:
        of_group = ConfigurationRecord.group_id == group
        of_all = func.sum(ConfigurationRecord.trials), func.sum(ConfigurationRecord.gpu_seconds)
        trials_left, seconds = session.execute(select(*of_all).where(of_group)).one()
        if trials_left is None:
            session.execute(delete(GroupRecord).where(GroupRecord.id == group))
            continue
        newest = (
            select(ConfigurationRecord.code, TrialRecord.started)
            .join(TrialRecord.configuration)
            .where(of_group)
            .order_by(TrialRecord.started.desc())
            .limit(1)
        )
        record = session.get_one(GroupRecord, group)
        record.trials, record.gpu_seconds = trials_left, seconds
        record.code, record.code_since = session.execute(newest).one()
        session.flush()


def select_going(sweep: int) -> Any:
    """Select the ids of a sweep's trials that no other sweep holds."""
    mine, other = SweepTrialRecord, aliased(SweepTrialRecord)
    shared = exists(literal(1)).where(
        other.trial_id == mine.trial_id, other.sweep_id != mine.sweep_id
    )
    return select(mine.trial_id).where(mine.sweep_id == sweep, ~shared.correlate(mine))
