"""What sweeps ask of the leaderboard: their trials, those of others, and models to teach from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.errors import StoreError
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.reading.problems import did_you_mean

SHOWN_NAMES = 5
"""Of sweeps, in an error."""


@dataclass(frozen=True)
class DevPoint:
    """One point of a dev curve."""

    step: int
    value: float | None
    """The dev score, a fraction; None where it was NaN."""
    metrics: dict[str, float | None]
    kept: bool = False
    """Whether it is of the best checkpoint, as `dev: {checkpoint: …}` chose it."""


@dataclass(frozen=True)
class CompletedTrial:
    """A trial that another sweep can take over."""

    key: str
    curve: list[tuple[int, float]]
    """(step, dev score), without the steps where it was NaN."""
    best_step: int
    best_value: float
    model: str | None


@dataclass(frozen=True)
class BestModel:
    """The checkpoint of one trial."""

    trial: str
    folder: str
    value: float


@dataclass(frozen=True)
class TrialRow:
    """One trial, as its sweep sees it."""

    number: int
    key: str
    role: str
    seed: int
    state: str
    values: dict[str, Any]
    best_value: float | None
    best_step: int | None
    steps: int | None
    """The last step reported."""
    error: str | None


def dev_curve(session: Session, trial: str) -> list[DevPoint]:
    """The dev curve of a trial, by its key, in order of steps; empty where there is none."""
    return dev_curves(session, [trial])[trial]


def dev_curves(session: Session, trials: Sequence[str]) -> dict[str, list[DevPoint]]:
    """The dev curves of trials, by their keys, in order of steps; empty where there is none."""
    query = (
        select(TrialRecord.key, TrialRecord.best_step, DevPointRecord)
        .join(TrialRecord, TrialRecord.id == DevPointRecord.trial_id)
        .where(TrialRecord.key.in_(trials))
        .order_by(DevPointRecord.trial_id, DevPointRecord.step)
    )
    found: dict[str, list[DevPoint]] = {trial: [] for trial in trials}
    for key, best, one in session.execute(query):
        found[key].append(DevPoint(one.step, one.value, one.metrics, kept=one.step == best))
    return found


def completed_trial(session: Session, key: str) -> CompletedTrial | None:
    """The trial of that key, if it is complete, so that it need not run again."""
    query = select(TrialRecord).where(TrialRecord.key == key, TrialRecord.state == "COMPLETE")
    trial = session.scalars(query).one_or_none()
    if trial is None or trial.best_step is None or trial.best_value is None:
        return None
    points = dev_curve(session, key)
    curve = [(point.step, point.value) for point in points if point.value is not None]
    return CompletedTrial(key, curve, trial.best_step, trial.best_value, trial.model)


def best_model(
    session: Session, *, method: str, backbone: str, dev_identity: str
) -> BestModel | None:
    """The complete trial with the highest dev value that kept its model; the older of equals."""
    query = (
        select(TrialRecord)
        .join(ConfigurationRecord, ConfigurationRecord.id == TrialRecord.configuration_id)
        .join(GroupRecord, GroupRecord.id == ConfigurationRecord.contest_id)
        .where(
            GroupRecord.method == method,
            GroupRecord.backbone == backbone,
            GroupRecord.dev_identity == dev_identity,
            TrialRecord.state == "COMPLETE",
            TrialRecord.model.is_not(None),
        )
        .order_by(TrialRecord.best_value.desc(), TrialRecord.id)
        .limit(1)
    )
    trial = session.scalars(query).one_or_none()
    if trial is None or trial.model is None or trial.best_value is None:
        return None
    return BestModel(trial.key, trial.model, trial.best_value)


def sweep_spec(session: Session, name: str) -> dict[str, Any] | None:
    """The sweep file as it was last started; None for an unknown name."""
    return session.scalars(select(SweepRecord.spec).where(SweepRecord.name == name)).one_or_none()


def sweep_named(session: Session, name: str) -> SweepRecord:
    """The sweep of that name.

    Raises:
        StoreError: if there is none; names the nearest.
    """
    sweep = session.scalars(select(SweepRecord).where(SweepRecord.name == name)).one_or_none()
    if sweep is not None:
        return sweep
    names = session.scalars(select(SweepRecord.name).order_by(SweepRecord.id)).all()
    if not names:
        raise StoreError(f"there is no sweep {name!r}: this leaderboard holds none yet")
    hint = did_you_mean(name, names) or f"; the last ones are {', '.join(names[-SHOWN_NAMES:])}"
    raise StoreError(f"there is no sweep {name!r} on this leaderboard{hint}")


def trials_of(session: Session, sweep: str) -> list[TrialRow]:
    """The trials of a sweep, in order of their numbers."""
    steps = (
        select(func.max(DevPointRecord.step))
        .where(DevPointRecord.trial_id == TrialRecord.id)
        .scalar_subquery()
    )
    query = (
        select(SweepTrialRecord, TrialRecord, ConfigurationRecord.values, steps)
        .join(SweepRecord, SweepRecord.id == SweepTrialRecord.sweep_id)
        .join(TrialRecord, TrialRecord.id == SweepTrialRecord.trial_id)
        .join(ConfigurationRecord, ConfigurationRecord.id == TrialRecord.configuration_id)
        .where(SweepRecord.name == sweep)
        .order_by(SweepTrialRecord.number)
    )
    return [
        TrialRow(
            number=place.number,
            key=trial.key,
            role=place.role,
            seed=trial.seed,
            state=trial.state,
            values=values,
            best_value=trial.best_value,
            best_step=trial.best_step,
            steps=last,
            error=trial.error,
        )
        for place, trial, values, last in session.execute(query)
    ]
