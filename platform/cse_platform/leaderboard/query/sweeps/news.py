"""What a sweep's driver would show of it, put together from the store for those who follow it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from cse_methods.data.dev_selection import DevSelection
from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.sweeps.measured import aims_of
from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview, sweep_overview
from cse_platform.leaderboard.query.sweeps.search_history import space_of
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    DriverMessageRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import DriverMessage, TrialPoint
from cse_platform.tracking.trial_history import TrialHistory


@dataclass(frozen=True)
class SweepNews:
    """A sweep as it is, and what has happened in it."""

    overview: SweepOverview
    constraints: tuple[str, ...]
    checkpoint: str
    """The dev set that picks checkpoints."""
    trials: tuple[TrialHistory, ...]
    """Those that run, with their dev curves, and those that have ended, without."""
    messages: tuple[DriverMessage, ...]
    """What its driver has said, oldest first."""


def sweep_news(session: Session, name: str, *, since: datetime | None = None) -> SweepNews:
    """How far a sweep is, and what has happened `since` that time, or since its first start.

    Raises:
        NotFoundError: if there is none of that name.
    """
    sweep = find_sweep(session, name)
    checkpoint = _checkpoint(sweep.spec)
    return SweepNews(
        overview=sweep_overview(session, name),
        constraints=aims_of(sweep.spec).constraints,
        checkpoint=checkpoint,
        trials=tuple(_trials(session, sweep, checkpoint, since)),
        messages=tuple(driver_messages(session, sweep, since=since)),
    )


def driver_messages(
    session: Session, sweep: SweepRecord, *, since: datetime | None = None
) -> list[DriverMessage]:
    """What the driver of a sweep has said since a time, or ever; oldest first."""
    query = select(DriverMessageRecord).where(DriverMessageRecord.sweep_id == sweep.id)
    if since is not None:
        query = query.where(DriverMessageRecord.time >= since)
    found = session.scalars(query.order_by(DriverMessageRecord.time, DriverMessageRecord.position))
    return [
        DriverMessage.model_validate(
            {"sweep": sweep.name, "time": said.time, "level": said.level, "text": said.text}
        )
        for said in found
    ]


def _trials(
    session: Session, sweep: SweepRecord, checkpoint: str, since: datetime | None
) -> Iterable[TrialHistory]:
    ended = func.coalesce(SweepTrialRecord.reused, TrialRecord.finished)
    at_best = (DevPointRecord.trial_id == TrialRecord.id) & (
        DevPointRecord.step == TrialRecord.best_step
    )
    query = (
        select(
            SweepTrialRecord.number,
            SweepTrialRecord.role,
            SweepTrialRecord.search_number,
            SweepTrialRecord.reused_from,
            TrialRecord.key,
            TrialRecord.seed,
            TrialRecord.state,
            TrialRecord.started,
            ended.label("finished"),
            TrialRecord.best_step,
            TrialRecord.best_value,
            TrialRecord.wall_seconds,
            TrialRecord.gpu_seconds,
            TrialRecord.error,
            TrialRecord.why,
            ConfigurationRecord.hash.label("configuration"),
            ConfigurationRecord.code,
            ConfigurationRecord.values.label("hyperparameters"),
            ConfigurationRecord.searched,
            DevPointRecord.metrics,
        )
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.trial)
        .join(TrialRecord.configuration)
        .outerjoin(DevPointRecord, at_best)
        .where(SweepTrialRecord.sweep_id == sweep.id)
        .order_by(SweepTrialRecord.number)
    )
    if since is not None:
        query = query.where(or_(TrialRecord.state == "RUNNING", ended >= since))
    space = space_of(sweep.spec)
    found = {line.key: _trial(line._mapping, space) for line in session.execute(query)}
    for point in _running_points(session, sweep):
        if (trial := found.get(point.trial)) is not None:
            trial.add_point(point, checkpoint=checkpoint)
    return found.values()


def _trial(line: Mapping[Any, Any], space: Space) -> TrialHistory:
    fields = dict(line)
    values, metrics = fields.pop("hyperparameters"), fields.pop("metrics") or {}
    spent, seconds = fields.pop("gpu_seconds"), fields["wall_seconds"]
    active = space.active(values)
    searched = [name for name in space if name in active] if len(space) else fields["searched"]
    measured = {name: value for name, value in metrics.items() if value is not None}
    return TrialHistory(
        **fields
        | {
            "values": values,
            "searched": tuple(searched),
            "best_metrics": measured,
            "gpus": spent / seconds if seconds else 0.0,
        }
    )


def _running_points(session: Session, sweep: SweepRecord) -> Iterable[TrialPoint]:
    query = (
        select(TrialRecord.key, DevPointRecord)
        .join(TrialRecord.points)
        .join(TrialRecord.places)
        .where(SweepTrialRecord.sweep_id == sweep.id, TrialRecord.state == "RUNNING")
        .order_by(DevPointRecord.trial_id, DevPointRecord.step)
    )
    for key, point in session.execute(query):
        yield TrialPoint(
            sweep=sweep.name,
            trial=key,
            time=point.reported_at,
            step=point.step,
            value=_number(point.value),
            metrics={name: _number(value) for name, value in point.metrics.items()},
        )


def _number(stored: float | None) -> float:
    return math.nan if stored is None else stored


def _checkpoint(spec: Mapping[str, Any]) -> str:
    try:
        return DevSelection.model_validate(spec.get("dev") or {}).checkpoint
    except ValidationError:  # of another version
        return DevSelection().checkpoint
