"""What the complete trials of a sweep measured, as its objectives and constraints are about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.objectives import ConstraintText, SearchObjective

_OBJECTIVES = TypeAdapter(tuple[SearchObjective, ...])
_CONSTRAINTS = TypeAdapter(tuple[ConstraintText, ...])


@dataclass(frozen=True)
class Aims:
    """What a search is after beside the dev score, by its stored file."""

    objectives: tuple[SearchObjective, ...] = ()
    constraints: tuple[str, ...] = ()


def aims_of(spec: Mapping[str, Any]) -> Aims:
    """Objectives and constraints of a sweep's stored file; none where it says nothing of them."""
    search = spec.get("search") or {}
    try:
        return Aims(
            _OBJECTIVES.validate_python(search.get("objectives") or ()),
            _CONSTRAINTS.validate_python(search.get("constraints") or ()),
        )
    except ValidationError:  # of another version
        return Aims()


@dataclass(frozen=True)
class MeasuredTrial:
    """A complete trial of a sweep."""

    number: int
    key: str
    seed: int
    configuration: str
    """Its hash."""
    values: dict[str, Any]
    """All hyperparameters of the configuration."""
    best_value: float | None
    best_metrics: dict[str, float]
    """Those that are numbers."""
    wall_seconds: float | None
    gpus: float


def measured_trials(session: Session, sweep: int) -> list[MeasuredTrial]:
    """The complete trials of a sweep, by its id, in the order of their numbers."""
    at_best = (DevPointRecord.trial_id == TrialRecord.id) & (
        DevPointRecord.step == TrialRecord.best_step
    )
    query = (
        select(
            SweepTrialRecord.number,
            TrialRecord.key,
            TrialRecord.seed,
            ConfigurationRecord.hash,
            ConfigurationRecord.values.label("hyperparameters"),
            TrialRecord.best_value,
            DevPointRecord.metrics,
            TrialRecord.wall_seconds,
            TrialRecord.gpu_seconds,
        )
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.trial)
        .join(TrialRecord.configuration)
        .outerjoin(DevPointRecord, at_best)
        .where(SweepTrialRecord.sweep_id == sweep, TrialRecord.state == "COMPLETE")
        .order_by(SweepTrialRecord.number)
    )
    return [
        MeasuredTrial(
            number=line.number,
            key=line.key,
            seed=line.seed,
            configuration=line.hash,
            values=line.hyperparameters,
            best_value=line.best_value,
            best_metrics={name: v for name, v in (line.metrics or {}).items() if v is not None},
            wall_seconds=line.wall_seconds,
            gpus=line.gpu_seconds / line.wall_seconds if line.wall_seconds else 0.0,
        )
        for line in session.execute(query)
    ]
