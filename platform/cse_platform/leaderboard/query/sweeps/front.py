"""The Pareto front of a search with several objectives."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from sqlalchemy.orm import Session

from cse_platform.errors import QueryError
from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.sweeps.measured import (
    Aims,
    MeasuredTrial,
    aims_of,
    measured_trials,
)
from cse_platform.leaderboard.query.sweeps.stored_file import search_dev, space_of
from cse_platform.leaderboard.statistics.pareto import non_dominated
from cse_platform.sweep.objectives import SearchObjective, is_feasible, measure
from cse_platform.sweep.space.space import Space


@dataclass(frozen=True)
class FrontRow:
    """A configuration of a search, by the means over its complete seeds."""

    configuration: str
    """Its hash."""
    trial: int
    """The number of its first one in the sweep."""
    key: str
    """Of that trial."""
    seeds: tuple[int, ...]
    values: dict[str, Any]
    """The searched hyperparameters that took part."""
    measured: dict[str, float]
    """Each objective, by its name; correlations and accuracies are fractions."""
    feasible: bool
    """Whether it keeps the search's constraints."""
    on_front: bool
    """Whether no other feasible one is better in all objectives, or better in one and equal in the
    others."""


@dataclass(frozen=True)
class ParetoFront:
    """The configurations of a search with several objectives."""

    sweep: str
    dev: str
    """What the search climbs by itself, e.g. `stsb`: the objective `dev`."""
    objectives: tuple[SearchObjective, ...]
    constraints: tuple[str, ...]
    rows: tuple[FrontRow, ...]
    """Those on the front first, and each part by the first objective, the best first. Those that
    did not measure an objective are left out."""


def sweep_front(session: Session, name: str) -> ParetoFront:
    """The configurations of a sweep, and which of them are on its Pareto front.

    Raises:
        NotFoundError: if there is no such sweep.
        QueryError: if its search has one objective alone.
    """
    sweep = find_sweep(session, name)
    aims = aims_of(sweep.spec)
    if not aims.objectives:
        raise QueryError(
            f"sweep {name!r} has one objective, its dev score, and so no Pareto front; "
            "`search: {objectives: […]}` names several"
        )
    seeds: dict[str, list[MeasuredTrial]] = defaultdict(list)
    for trial in measured_trials(session, sweep.id):
        seeds[trial.configuration].append(trial)
    space = space_of(sweep.spec)
    every = (_row(aims, space, trials) for trials in seeds.values())
    rows = _with_front([row for row in every if row is not None], aims)
    first = aims.objectives[0]
    sign = -1 if first.direction == "maximize" else 1
    rows.sort(key=lambda row: (not row.on_front, sign * row.measured[first.name], row.trial))
    return ParetoFront(name, search_dev(sweep.spec), aims.objectives, aims.constraints, tuple(rows))


def _row(aims: Aims, space: Space, trials: Sequence[MeasuredTrial]) -> FrontRow | None:
    """A configuration by its trials; None where one of them did not measure an objective."""
    means = {}
    for objective in aims.objectives:
        values = [measure(trial, objective.name) for trial in trials]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        means[objective.name] = fmean(known)
    first = trials[0]
    return FrontRow(
        configuration=first.configuration,
        trial=first.number,
        key=first.key,
        seeds=tuple(trial.seed for trial in trials),
        values=space.active(first.values),
        measured=means,
        feasible=is_feasible(aims.constraints, trials),
        on_front=False,
    )


def _with_front(rows: Sequence[FrontRow], aims: Aims) -> list[FrontRow]:
    """The same rows; those on the front say so."""
    feasible = [row for row in rows if row.feasible]
    points = [list(row.measured.values()) for row in feasible]
    places = non_dominated(points, [one.direction for one in aims.objectives])
    front = {feasible[place].configuration for place in places}
    return [replace(row, on_front=row.configuration in front) for row in rows]
