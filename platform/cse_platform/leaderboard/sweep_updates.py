"""Reads what is new in a sweep, for programs that follow its progress."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.searches import parse_objectives_and_constraints
from cse_platform.leaderboard.sweeps import SweepOverview, state_of, sweep_overview
from cse_platform.leaderboard.trials import LAST_STEP, select_trials
from cse_platform.stores.sql.stored_sweeps import find_sweep, lease_owners, space_of
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    DevPointRecord,
    DriverMessageRecord,
    JournalCursorRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import DriverMessage, TrialPoint
from cse_platform.tracking.history import TrialHistory, stored_dev

_ENDED = func.coalesce(SweepTrialRecord.reused, TrialRecord.finished)


@dataclass(frozen=True)
class SweepUpdate:
    """The state of a sweep, and what has happened in it."""

    overview: SweepOverview
    constraints: tuple[str, ...]
    checkpoint: str
    """The dev score that picks checkpoints, e.g. `stsb`, or `stsb+sickr` for a mean of both."""
    trials: tuple[TrialHistory, ...]
    """Running trials without their dev curves, and ended trials with their last points only."""
    points: tuple[TrialPoint, ...]
    """The dev points of running trials, in order of steps."""
    messages: tuple[DriverMessage, ...]
    """The messages of its driver, oldest first."""


def sweep_update(session: Session, name: str, *, since: datetime | None = None) -> SweepUpdate:
    """Read the progress of a sweep, and what happened since a time; without `since`, everything.

    Raises:
        NotFoundError: if there is none of that name.
    """
    sweep = find_sweep(session, name)
    return SweepUpdate(
        overview=sweep_overview(session, name),
        constraints=parse_objectives_and_constraints(sweep.spec).constraints,
        checkpoint=stored_dev(sweep.spec).checkpoint_name,
        trials=tuple(_read_trials(session, sweep, since)),
        points=tuple(_read_running_points(session, sweep, since)),
        messages=tuple(driver_messages(session, sweep, since=since)),
    )


def driver_messages(
    session: Session, sweep: SweepRecord, *, since: datetime | None = None
) -> list[DriverMessage]:
    """Read the messages of a sweep's driver since a time, or all of them; oldest first."""
    query = select(DriverMessageRecord).where(DriverMessageRecord.sweep_id == sweep.id)
    if since is not None:
        query = query.where(DriverMessageRecord.time >= since)
    records = session.scalars(
        query.order_by(DriverMessageRecord.time, DriverMessageRecord.position)
    )
    return [
        DriverMessage.model_validate(
            {"sweep": sweep.name, "time": record.time, "level": record.level, "text": record.text}
        )
        for record in records
    ]


def _read_trials(
    session: Session, sweep: SweepRecord, since: datetime | None
) -> Iterator[TrialHistory]:
    query = _select_histories().where(SweepTrialRecord.sweep_id == sweep.id)
    if since is not None:
        query = query.where(or_(TrialRecord.state == "RUNNING", since <= _ENDED))
    space = space_of(sweep.spec)
    for line in session.execute(query.order_by(SweepTrialRecord.number)):
        yield _make_trial_history(line._mapping, space)


def _select_histories() -> Select[Any]:
    """Select trials with the metrics of their best steps, and their last points."""
    best, last = aliased(DevPointRecord), aliased(DevPointRecord)
    link, trial, configuration = SweepTrialRecord, TrialRecord, ConfigurationRecord
    return (
        select_trials(
            *(link.number, link.role, link.search_number, link.reused_from),
            *(trial.key, trial.seed, trial.state, trial.started, _ENDED.label("finished")),
            *(trial.best_step, trial.best_value, trial.error, trial.why),
            *(trial.wall_seconds, trial.gpu_seconds),
            configuration.hash.label("configuration"),
            *(configuration.code, configuration.searched),
            configuration.values.label("hyperparameters"),
            best.metrics,
            last.step.label("last_step"),
            last.value.label("last_value"),
        )
        .outerjoin(best, (best.trial_id == trial.id) & (best.step == trial.best_step))
        .outerjoin(last, (last.trial_id == trial.id) & (last.step == LAST_STEP))
    )


def _make_trial_history(line: Mapping[Any, Any], space: Space) -> TrialHistory:
    fields = dict(line)
    values, metrics = fields.pop("hyperparameters"), fields.pop("metrics") or {}
    spent, seconds = fields.pop("gpu_seconds"), fields["wall_seconds"]
    step, value = fields.pop("last_step"), fields.pop("last_value")
    has_ended = fields["state"] != "RUNNING" and step is not None
    active = space.active(values)
    searched = [name for name in space if name in active] if len(space) else fields["searched"]
    measured = {name: value for name, value in metrics.items() if value is not None}
    return TrialHistory(
        **fields
        | {
            "values": values,
            "searched": tuple(searched),
            "curve": {step: _restore_nan(value)} if has_ended else {},
            "best_metrics": measured,
            "gpus": spent / seconds if seconds else 0.0,
        }
    )


def _read_running_points(
    session: Session, sweep: SweepRecord, since: datetime | None
) -> Iterator[TrialPoint]:
    query = (
        select(TrialRecord.key, DevPointRecord)
        .join(TrialRecord.points)
        .join(TrialRecord.places)
        .where(SweepTrialRecord.sweep_id == sweep.id, TrialRecord.state == "RUNNING")
        .order_by(DevPointRecord.trial_id, DevPointRecord.step)
    )
    if since is not None:
        query = query.where(DevPointRecord.reported_at >= since)
    for key, point in session.execute(query):
        yield TrialPoint(
            sweep=sweep.name,
            trial=key,
            time=point.reported_at,
            step=point.step,
            value=_restore_nan(point.value),
            metrics={name: _restore_nan(value) for name, value in point.metrics.items()},
        )


def _restore_nan(stored: float | None) -> float:
    """Return a stored number, with NaN for NULL."""
    return math.nan if stored is None else stored


@dataclass(frozen=True)
class SweepStamp:
    """A stamp that changes when the store receives news of a sweep."""

    state: str
    """As in `SweepOverview`."""
    position: int
    """The offset up to which its journal has been applied."""


def sweep_stamps(session: Session, name: str | None = None) -> dict[str, SweepStamp]:
    """Read the stamps of all sweeps, or of one, by name.

    Raises:
        NotFoundError: if there is no sweep of that name.
    """
    columns = (SweepRecord.name, SweepRecord.state, JournalCursorRecord.position)
    query = select(*columns).outerjoin(
        JournalCursorRecord, JournalCursorRecord.journal == SweepRecord.journal
    )
    if name is not None:
        query = query.where(SweepRecord.id == find_sweep(session, name).id)
    held = lease_owners(session, name)
    return {
        sweep: SweepStamp(state_of(state, held.get(sweep)), position or 0)
        for sweep, state, position in session.execute(query.order_by(SweepRecord.id))
    }
