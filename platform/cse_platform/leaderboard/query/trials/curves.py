"""Dev curves of trials."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    GroupRecord,
    TrialRecord,
)


@dataclass(frozen=True)
class DevPoint:
    """One point of a dev curve."""

    step: int
    value: float | None
    """The dev score, a fraction; None where it was NaN."""
    metrics: dict[str, float | None]
    kept: bool = False
    """Whether it is of the best checkpoint, as `dev: {checkpoint: …}` chose it."""


def dev_curve(session: Session, trial: str) -> list[DevPoint]:
    """The dev curve of a trial, by its key, in order of steps; empty where there is none."""
    return dev_curves(session, [trial])[trial]


def dev_curves(session: Session, trials: Sequence[str]) -> dict[str, list[DevPoint]]:
    """The dev curves of trials, by their keys, in order of steps; empty where there is none."""
    query = (
        select(TrialRecord.key, TrialRecord.best_step, DevPointRecord)
        .join(TrialRecord.points)
        .where(TrialRecord.key.in_(trials))
        .order_by(DevPointRecord.trial_id, DevPointRecord.step)
    )
    found: dict[str, list[DevPoint]] = {trial: [] for trial in trials}
    for key, best, one in session.execute(query):
        found[key].append(dev_point(one, best_step=best))
    return found


def dev_point(stored: DevPointRecord, *, best_step: int | None) -> DevPoint:
    """A stored point of the curve of a trial with that best step."""
    return DevPoint(stored.step, stored.value, stored.metrics, kept=stored.step == best_step)


@dataclass(frozen=True)
class CompleteCurve:
    """The dev curve of a complete trial, and nothing else of it."""

    trial: str
    """Its key."""
    configuration: str
    """Its hash: equal for all seeds."""
    values: dict[int, float]
    """The dev score by step, a fraction; steps where it was NaN are left out."""


def complete_curves(
    session: Session, *, method: str, backbone: str, dev_identity: str, corpus: str, limit: int
) -> list[CompleteCurve]:
    """The curves of the newest complete trials of a method on a backbone, in all sweeps.

    Only trials that were trained on that corpus, and whose dev scores can be compared.
    """
    newest = (
        select(TrialRecord.id)
        .join(TrialRecord.configuration)
        .join(ConfigurationRecord.group)
        .where(
            GroupRecord.method == method,
            GroupRecord.backbone == backbone,
            GroupRecord.dev_identity == dev_identity,
            ConfigurationRecord.corpus == corpus,
            TrialRecord.state == "COMPLETE",
        )
        .order_by(TrialRecord.finished.desc(), TrialRecord.id.desc())
        .limit(limit)
        .subquery()
    )
    query = (
        select(TrialRecord.key, ConfigurationRecord.hash, DevPointRecord.step, DevPointRecord.value)
        .join(TrialRecord.points)
        .join(TrialRecord.configuration)
        .where(TrialRecord.id.in_(select(newest.c.id)))
        .order_by(TrialRecord.id, DevPointRecord.step)
    )
    found: dict[str, CompleteCurve] = {}
    for trial, configuration, step, value in session.execute(query):
        curve = found.setdefault(trial, CompleteCurve(trial, configuration, {}))
        if value is not None:
            curve.values[step] = value
    return list(found.values())
