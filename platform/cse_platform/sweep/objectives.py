"""What a search is after: its objectives, and constraints on what a trial measured."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import AfterValidator, Field, model_validator

from cse_methods.data.dev_selection import DevSelection, dev_metric
from cse_methods.settings import Settings
from cse_platform.sweep.problems import did_you_mean, format_value

Direction = Literal["maximize", "minimize"]

DEV_VALUE = "dev"
"""The name of what the search climbs, by `dev.search`."""
SECONDS, GPU_HOURS = "seconds", "gpu_hours"
GEOMETRY = {"alignment": "dev/alignment", "uniformity": "dev/uniformity"}
_LOWER_IS_BETTER = {SECONDS, GPU_HOURS, *GEOMETRY, *GEOMETRY.values()}
_HIGHER_IS_BETTER = re.compile(r"[^/]+|dev/.+_(spearman|accuracy|mean)")
"""Dev sets, and what is measured on them."""
_CONSTRAINT = re.compile(r"\s*(?P<name>\S+?)\s*(?P<comparison><=|>=)\s*(?P<bound>\S+)\s*")


class Measured(Protocol):
    """A trial that has ended, as far as a search is after it."""

    @property
    def best_value(self) -> float | None:
        """What the search climbs, of the kept checkpoint."""

    @property
    def best_metrics(self) -> Mapping[str, float]:
        """All that was reported of the kept checkpoint."""

    @property
    def wall_seconds(self) -> float | None:
        """How long it ran."""

    @property
    def gpus(self) -> float:
        """Its share of a GPU."""


def measure(trial: Measured, name: str) -> float | None:
    """What an objective or a constraint calls by a name; None where it is no number."""
    if name == DEV_VALUE:
        found = trial.best_value
    elif name in (SECONDS, GPU_HOURS):
        share = 1.0 if name == SECONDS else trial.gpus / 3600
        found = None if trial.wall_seconds is None else trial.wall_seconds * share
    else:
        found = trial.best_metrics.get(metric_of(name))
    return None if found is None or not math.isfinite(found) else found


def is_metric(name: str) -> bool:
    """Whether it is something that a trial reports, and not what it costs or climbs."""
    return name not in (DEV_VALUE, SECONDS, GPU_HOURS)


def metric_of(name: str) -> str:
    """The metric that is meant by a dev set, by `alignment` and `uniformity`, or by its name."""
    return name if "/" in name else GEOMETRY.get(name) or dev_metric(name)


def is_fraction(name: str) -> bool:
    """Whether it is a correlation, an accuracy or a mean of these, which people read x 100."""
    return name not in _LOWER_IS_BETTER and _HIGHER_IS_BETTER.fullmatch(name) is not None


def _infer_direction(name: str) -> Direction | None:
    """In which direction it is better, where that is known."""
    if name in _LOWER_IS_BETTER or name.startswith("train/loss"):
        return "minimize"
    return "maximize" if is_fraction(name) else None


class SearchObjective(Settings):
    """One of several values that a search makes as high or as low as it can."""

    name: str = Field(min_length=1, description="a dev set, `uniformity`, `seconds` or a metric")
    direction: Direction

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        given = {"name": value} if isinstance(value, str) else value
        if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
            return given
        if given.get("direction") is not None:
            return given
        direction = _infer_direction(given["name"])
        if direction is None:
            raise ValueError(
                f"whether {given['name']!r} is to be high or low is not known; write "
                f"{{name: {given['name']}, direction: minimize}}, or maximize"
            )
        return {**given, "direction": direction}

    def __str__(self) -> str:
        return f"{self.name} ({self.direction})"


@dataclass(frozen=True)
class Constraint:
    """A bound on what a trial measured."""

    name: str
    comparison: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """What a text such as `uniformity <= -1.5` says; ValueError if it says no such thing."""
        found = _CONSTRAINT.fullmatch(text)
        try:
            bound = float(found["bound"]) if found else math.nan
        except ValueError:
            bound = math.nan
        if found is None or not math.isfinite(bound):
            raise ValueError(
                "expected NAME <= NUMBER or NAME >= NUMBER, such as 'uniformity <= -1.5', "
                f"got {format_value(text)}"
            )
        return cls(found["name"], found["comparison"], bound)

    def __str__(self) -> str:
        return f"{self.name} {self.comparison} {self.bound:g}"

    def excess(self, value: float) -> float:
        """By how much a value is beyond the bound; at most 0 where it keeps it."""
        above = value - self.bound
        return above if self.comparison == "<=" else -above


def _normalize_constraint(text: str) -> str:
    Constraint.parse(text)
    return " ".join(text.split())


ConstraintText = Annotated[str, AfterValidator(_normalize_constraint)]


def excesses(constraints: Iterable[str], trials: Sequence[Measured]) -> dict[str, float] | None:
    """By how much the means over these trials are beyond each constraint, by its text.

    None where one of them is not measured.
    """
    found = {}
    for text in constraints:
        constraint = Constraint.parse(text)
        values = [measure(trial, constraint.name) for trial in trials]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        found[text] = constraint.excess(fmean(known))
    return found


def is_feasible(constraints: Iterable[str], trials: Sequence[Measured]) -> bool:
    """Whether the means over these trials keep all constraints."""
    found = excesses(constraints, trials)
    return found is not None and all(excess <= 0 for excess in found.values())


def unknown_name(name: str, dev: DevSelection) -> str | None:
    """Why nothing that trials with these dev sets measure has a name; None where something has.

    Metrics by their full names are taken as they are: a trial tells whether it reports them.
    """
    geometry = tuple(GEOMETRY) if dev.geometry else ()
    known = (*dev.tasks, DEV_VALUE, *geometry, SECONDS, GPU_HOURS)
    if "/" in name or name in known:
        return None
    other = f"; known: {', '.join(known)}, or a metric by its whole name, as dev/stsb_spearman"
    return f"no trial measures {name!r}{did_you_mean(name, known) or other}"
