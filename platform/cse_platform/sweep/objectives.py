"""Objectives of a search, and constraints on the measured values of a trial."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, Field, model_validator

from cse_methods.data.dev_selection import DEV_TASKS, DevSelection, dev_metric
from cse_methods.settings import Settings
from cse_methods.tasks import TRANSFER_TASKS
from cse_platform.sweep.conditions import Condition, parse_conditions
from cse_platform.sweep.problems import did_you_mean, format_value

Direction = Literal["maximize", "minimize"]

DEV_VALUE = "dev"
"""The name of the dev score that the search maximises, set by `dev.search`."""
SECONDS, GPU_HOURS = "seconds", "gpu_hours"
GEOMETRY = {"alignment": "dev/alignment", "uniformity": "dev/uniformity"}
_LOWER_IS_BETTER = {SECONDS, GPU_HOURS, *GEOMETRY, *GEOMETRY.values()}
_HIGHER_IS_BETTER = re.compile(r"[^/]+|dev/.+_(spearman|accuracy|mean)")
"""Matches the names of dev sets, and of the metrics on them."""


class Measured(Protocol):
    """The part of an ended trial that objectives and constraints read."""

    @property
    def best_value(self) -> float | None:
        """The value that the search maximises, at the kept checkpoint."""

    @property
    def best_metrics(self) -> Mapping[str, float]:
        """All metrics reported at the kept checkpoint."""

    @property
    def wall_seconds(self) -> float | None:
        """How long the trial ran, in seconds; None if unknown."""

    @property
    def gpus(self) -> float:
        """The share of a GPU that it occupied."""


def measure(trial: Measured, name: str) -> float | None:
    """Return the value of an objective or constraint by name; None if missing or not finite."""
    if name == DEV_VALUE:
        value = trial.best_value
    elif name in (SECONDS, GPU_HOURS):
        share = 1.0 if name == SECONDS else trial.gpus / 3600
        value = None if trial.wall_seconds is None else trial.wall_seconds * share
    else:
        value = trial.best_metrics.get(metric_of(name))
    return None if value is None or not math.isfinite(value) else value


def is_metric(name: str) -> bool:
    """Whether trials report the quantity as a metric, unlike their costs and the dev score."""
    return name not in (DEV_VALUE, SECONDS, GPU_HOURS)


def metric_of(name: str) -> str:
    """Return the metric's full name for a dev set, `alignment`, `uniformity` or a full name."""
    return name if "/" in name else GEOMETRY.get(name) or dev_metric(name)


def is_fraction(name: str) -> bool:
    """Whether it is a correlation, an accuracy or a mean of these, which are shown x 100."""
    return name not in _LOWER_IS_BETTER and _HIGHER_IS_BETTER.fullmatch(name) is not None


class SearchObjective(Settings):
    """One of several quantities that a search maximises or minimises."""

    name: str = Field(min_length=1, description="a dev set, `uniformity`, `seconds` or a metric")
    direction: Direction

    @model_validator(mode="before")
    @classmethod
    def _expand_name(cls, value: Any) -> Any:
        given = {"name": value} if isinstance(value, str) else value
        name = given.get("name") if isinstance(given, Mapping) else None
        if not isinstance(name, str) or given.get("direction") is not None:
            return given
        if name in _LOWER_IS_BETTER or name.startswith("train/loss"):
            return {**given, "direction": "minimize"}
        if is_fraction(name):
            return {**given, "direction": "maximize"}
        raise ValueError(
            f"whether {name!r} should be high or low is unknown; write {{name: {name}, direction: "
            "minimize}, or maximize"
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.direction})"


@lru_cache(maxsize=1024)
def parse_constraint(text: str) -> Condition:
    """Parse a text such as `uniformity <= -1.5`; ValueError if it is not a constraint."""
    try:
        (constraint,) = parse_conditions(text)
        if constraint.sign in ("<=", ">="):
            return constraint
    except ValueError:
        pass
    raise ValueError(
        "expected NAME <= NUMBER or NAME >= NUMBER, such as 'uniformity <= -1.5', "
        f"got {format_value(text)}"
    )


def _normalize_constraint(text: str) -> str:
    parse_constraint(text)
    return " ".join(text.split())


ConstraintText = Annotated[str, AfterValidator(_normalize_constraint)]


def compute_excesses(
    constraints: Iterable[str], trials: Sequence[Measured]
) -> dict[str, float] | None:
    """Compute by how much the means over these trials violate each constraint, keyed by its text.

    Returns None if one of the values was not measured.
    """
    violations = {}
    for text in constraints:
        constraint = parse_constraint(text)
        values = [measure(trial, constraint.name) for trial in trials]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        above = fmean(known) - constraint.values[0]
        violations[text] = above if constraint.sign == "<=" else -above
    return violations


def is_feasible(constraints: Iterable[str], trials: Sequence[Measured]) -> bool:
    """Whether the means over these trials are all measured and satisfy all constraints."""
    violations = compute_excesses(constraints, trials)
    return violations is not None and all(excess <= 0 for excess in violations.values())


def unknown_name(name: str, dev: DevSelection) -> str | None:
    """Explain why trials with these dev sets do not measure the named quantity; None if they do.

    The full name of a metric of another dev set is refused; any other one is accepted, because only
    a trial shows whether it is reported.
    """
    geometry = tuple(GEOMETRY) if dev.geometry else ()
    measured_on = {dev_metric(task): task for task in DEV_TASKS} | dict.fromkeys(
        (f"dev/{task}_accuracy" for task in TRANSFER_TASKS), "transfer_dev"
    )
    if (dev_set := measured_on.get(name, "")) and dev_set not in dev.tasks:
        return f"no trial measures {name!r}, which is of another dev set; add {dev_set} to dev.also"
    known = (*dev.tasks, DEV_VALUE, *geometry, SECONDS, GPU_HOURS)
    if "/" in name or name in known:
        return None
    other = f"; known: {', '.join(known)}, or a metric by its full name, such as dev/stsb_spearman"
    return f"no trial measures {name!r}{did_you_mean(name, known) or other}"
