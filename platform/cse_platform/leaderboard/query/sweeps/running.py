"""The trials of a sweep that have not ended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.search_history import searched_values, space_of
from cse_platform.leaderboard.query.trials.curves import sweep_named
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    SweepTrialRecord,
    TrialRecord,
)

SHOWN = 50


@dataclass(frozen=True)
class RunningTrial:
    """A trial that has not ended."""

    key: str
    number: int
    seed: int
    started: datetime
    step: int | None
    """The last one reported; None before the first report."""
    value: float | None
    """The dev score there, a fraction; None where it was NaN."""
    values: dict[str, Any]
    """Of the searched settings."""


def running_trials(session: Session, name: str) -> list[RunningTrial]:
    """The trials of a sweep that have not ended, the newest first, at most 50.

    Raises:
        StoreError: if there is no such sweep.
    """
    sweep = sweep_named(session, name)
    space = space_of(sweep.spec)
    return [
        RunningTrial(
            key=line.key,
            number=line.number,
            seed=line.seed,
            started=line.started,
            step=line.step,
            value=line.value,
            values=searched_values(space, line.settings, line.searched),
        )
        for line in session.execute(_running(sweep.id))
    ]


def _running(sweep: int) -> Select[Any]:
    last = (
        select(func.max(DevPointRecord.step))
        .where(DevPointRecord.trial_id == TrialRecord.id)
        .correlate(TrialRecord)
        .scalar_subquery()
    )
    at_last = (DevPointRecord.trial_id == TrialRecord.id) & (DevPointRecord.step == last)
    return (
        select(
            TrialRecord.key,
            SweepTrialRecord.number,
            TrialRecord.seed,
            TrialRecord.started,
            DevPointRecord.step,
            DevPointRecord.value,
            ConfigurationRecord.values.label("settings"),
            ConfigurationRecord.searched,
        )
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == TrialRecord.id)
        .join(ConfigurationRecord, ConfigurationRecord.id == TrialRecord.configuration_id)
        .outerjoin(DevPointRecord, at_last)
        .where(SweepTrialRecord.sweep_id == sweep, TrialRecord.state == "RUNNING")
        .order_by(SweepTrialRecord.number.desc())
        .limit(SHOWN)
    )
