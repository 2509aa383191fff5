"""Everything that the leaderboard knows of one trial, put together."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.trials.curves import dev_curve
from cse_platform.leaderboard.query.trials.details_record import (
    Sibling,
    SweepPlace,
    SweepStart,
    TrialDetails,
)
from cse_platform.leaderboard.query.trials.evaluations import ScoreRow, find_trial, test_accesses
from cse_platform.leaderboard.row import Configuration, DevSet
from cse_platform.leaderboard.store.score_tables import ScoreRecord
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    MachineRecord,
    SweepRecord,
    SweepStartRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
)


def trial_details(session: Session, key: str) -> TrialDetails:
    """Everything about a trial.

    Args:
        session: of an open leaderboard.
        key: the trial's, or how it begins, as `find_trial` takes it.

    Raises:
        StoreError: if it names no trial, or several.
    """
    key = find_trial(session, key).key
    query = (
        select(TrialRecord, ConfigurationRecord, GroupRecord, MachineRecord)
        .join(ConfigurationRecord, ConfigurationRecord.id == TrialRecord.configuration_id)
        .join(GroupRecord, GroupRecord.id == ConfigurationRecord.contest_id)
        .outerjoin(MachineRecord, MachineRecord.id == TrialRecord.machine_id)
        .where(TrialRecord.key == key)
    )
    trial, configuration, contest, machine = session.execute(query).one()
    places = session.execute(_places(trial)).all()
    starts = _starts(session, trial, [sweep.id for sweep, _ in places])
    return TrialDetails(
        key=key,
        method=contest.method,
        revision=configuration.revision,
        backbone=contest.backbone,
        corpus=configuration.corpus,
        configuration=Configuration(
            configuration.hash, configuration.values, configuration.searched
        ),
        seed=trial.seed,
        dev=DevSet(
            contest.dev_checkpoint, contest.dev_search, contest.dev_identity, contest.dev_source
        ),
        state=trial.state,
        error=trial.error,
        started=trial.started,
        finished=trial.finished,
        wall_seconds=trial.wall_seconds,
        gpu_hours=trial.gpu_seconds / 3600,
        machine=f"{machine.host} · {machine.hardware}" if machine else None,
        best_step=trial.best_step,
        best_value=trial.best_value,
        untrained=trial.start_value,
        model=trial.model,
        provenance=trial.provenance,
        sweeps=tuple(SweepPlace(sweep.name, place.number, place.role) for sweep, place in places),
        tags=_tags(session, [sweep.id for sweep, _ in places]),
        starts=starts,
        spec=_spec(places, starts),
        curve=tuple(dev_curve(session, key)),
        scores=_scores(session, trial),
        openings=tuple(test_accesses(session, key)),
        siblings=_siblings(session, trial),
    )


def _places(trial: TrialRecord) -> Select[SweepRecord, SweepTrialRecord]:
    return (
        select(SweepRecord, SweepTrialRecord)
        .join(SweepTrialRecord, SweepTrialRecord.sweep_id == SweepRecord.id)
        .where(SweepTrialRecord.trial_id == trial.id)
        .order_by(SweepRecord.id)
    )


def _starts(session: Session, trial: TrialRecord, sweeps: Sequence[int]) -> tuple[SweepStart, ...]:
    """The sweep that ran the trial is, of those that hold it, the last started before it."""
    query = (
        select(SweepStartRecord, SweepRecord.name)
        .join(SweepRecord, SweepRecord.id == SweepStartRecord.sweep_id)
        .where(SweepStartRecord.sweep_id.in_(sweeps))
        .order_by(SweepStartRecord.started)
    )
    if trial.finished is not None:
        query = query.where(SweepStartRecord.started <= trial.finished)
    starts = [
        SweepStart(name, one.started, one.provenance, one.packages, one.diffs)
        for one, name in session.execute(query)
    ]
    before = [start for start in starts if start.started <= trial.started]
    if not before:
        return ()
    later = starts[len(before) :]
    return (before[-1], *(start for start in later if start.sweep == before[-1].sweep))


def _spec(
    places: Sequence[Row[SweepRecord, SweepTrialRecord]], starts: Sequence[SweepStart]
) -> dict[str, Any]:
    """Of the sweep that ran it; where that is unknown, of the first."""
    ran = starts[0].sweep if starts else places[0][0].name
    return next(sweep.spec for sweep, _ in places if sweep.name == ran)


def _tags(session: Session, sweeps: Sequence[int]) -> tuple[str, ...]:
    query = select(SweepTagRecord.tag).where(SweepTagRecord.sweep_id.in_(sweeps)).distinct()
    return tuple(session.scalars(query.order_by(SweepTagRecord.tag)))


def _scores(session: Session, trial: TrialRecord) -> tuple[ScoreRow, ...]:
    columns = (
        ScoreRecord.task,
        ScoreRecord.split,
        ScoreRecord.metric,
        ScoreRecord.value,
        ScoreRecord.identity,
    )
    order = (ScoreRecord.split, ScoreRecord.task, ScoreRecord.metric, ScoreRecord.identity)
    query = select(*columns).where(ScoreRecord.trial_id == trial.id).order_by(*order)
    return tuple(ScoreRow(*row) for row in session.execute(query))


def _siblings(session: Session, trial: TrialRecord) -> tuple[Sibling, ...]:
    query = (
        select(TrialRecord.key, TrialRecord.seed, TrialRecord.best_value, TrialRecord.state)
        .where(TrialRecord.configuration_id == trial.configuration_id, TrialRecord.id != trial.id)
        .order_by(TrialRecord.seed)
    )
    return tuple(Sibling(*row) for row in session.execute(query))
