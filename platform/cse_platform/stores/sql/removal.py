"""Removes a sweep from the leaderboard.

The rows of a sweep and of its trials go by cascade; trials that other sweeps hold too are kept.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import delete, exists, func, literal, select, update
from sqlalchemy.orm import Session, aliased

from cse_platform.counting_seeds import RIVALS
from cse_platform.stores.sql.estimates import estimate_configurations
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    EarlyEventRecord,
    EvaluationRecord,
    ExampleSetRecord,
    ExampleValuesRecord,
    GroupRecord,
    JournalCursorRecord,
    MachineRecord,
    ScoreRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepTrialRecord,
    TrialRecord,
    in_batches,
    sweep_or_none,
)


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
        trials = session.execute(
            select(TrialRecord.id, TrialRecord.configuration_id)
            .join(TrialRecord.links)
            .where(of_sweep)
        ).all()
        session.execute(delete(TrialRecord).where(TrialRecord.id.in_(select_going(sweep.id))))
        session.execute(delete(SweepRecord).where(SweepRecord.id == sweep.id))
        session.expire_all()
        for batch in in_batches(trials):
            _recount_trials(session, [row[0] for row in batch], {row[1] for row in batch})
        session.execute(delete(SweepRequestRecord).where(SweepRequestRecord.sweep == name))
    remove_cursors(session, {journal})
    session.execute(delete(EarlyEventRecord).where(EarlyEventRecord.journal == journal))
    users: list[tuple[Any, list[Any]]] = [
        (MachineRecord.id, [AttemptRecord.machine_id]),
        (ExampleSetRecord.data_sha256, [ExampleValuesRecord.data_sha256]),
        (EvaluationRecord.identity, [ScoreRecord.identity, ExampleValuesRecord.identity]),
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
        newest = newest.where(
            AttemptRecord.state.in_(RIVALS), ConfigurationRecord.code.is_not(None)
        )
        newest = newest.order_by(AttemptRecord.started.desc()).limit(1)
        code = newest.with_only_columns(ConfigurationRecord.code, AttemptRecord.started)
        record = session.get_one(GroupRecord, group)
        record.trials, record.gpu_seconds = count, seconds
        record.code, record.code_since = session.execute(code).first() or (None, None)
        session.flush()


def select_going(sweep: int) -> Any:
    """Select the ids of a sweep's trials that no other sweep holds."""
    mine, other = SweepTrialRecord, aliased(SweepTrialRecord)
    shared = exists(literal(1)).where(
        other.trial_id == mine.trial_id, other.sweep_id != mine.sweep_id
    )
    return select(mine.trial_id).where(mine.sweep_id == sweep, ~shared.correlate(mine))
