"""Dev curves of trials."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import DevPointRecord, TrialRecord


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
