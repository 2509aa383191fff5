"""Results of a search by value of a hyperparameter, and axes for these values."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

from cse_platform.leaderboard.records import Trial
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.values import canonical_json

TINY = 1e-3
LOG_TICKS = 4
"""With 4 ticks, Plotly marks 1, 2 and 5 of each power of ten, except on very short or long axes."""


@dataclass(frozen=True)
class AtValue:
    """Results of a search at one value of a hyperparameter, as fractions."""

    mean: float
    """The mean over configurations, each the mean of its seeds, weighted if trials are a sample."""
    std: float | None
    """The standard deviation over seeds, pooled within configurations; None if none has two."""
    configurations: int


def is_number(value: Any) -> bool:
    """Whether a value belongs on a numeric axis."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def on_axis(value: Any) -> Any:
    """Return numbers and texts as they are, anything else as JSON."""
    return value if is_number(value) or isinstance(value, str) else canonical_json(value)


def scored_with(trials: Sequence[Trial], *names: str) -> list[Trial]:
    """Return the complete trials with a score that have all of these hyperparameters."""
    return [
        trial
        for trial in trials
        if trial.state == "COMPLETE"
        and trial.best_value is not None
        and all(name in trial.searched_values for name in names)
    ]


def by_value(trials: Sequence[Trial], *names: str) -> dict[tuple[Any, ...], AtValue]:
    """Group the results of complete trials by their values of these hyperparameters."""
    groups: dict[Any, dict[str, list[Trial]]] = defaultdict(lambda: defaultdict(list))
    for trial in scored_with(trials, *names):
        point = tuple(on_axis(trial.searched_values[name]) for name in names)
        groups[point][trial.configuration].append(trial)
    results = {}
    for point, configurations in groups.items():
        values = [[trial.best_value or 0.0 for trial in seeds] for seeds in configurations.values()]
        weights = [[trial.weight for trial in seeds] for seeds in configurations.values()]
        several = [seeds for seeds in values if len(seeds) > 1]
        freedom = sum(len(seeds) - 1 for seeds in several)
        squares = sum(variance(seeds) * (len(seeds) - 1) for seeds in several)
        results[point] = AtValue(
            mean=fmean(map(fmean, values, weights), map(fmean, weights)),
            std=math.sqrt(squares / freedom) if freedom else None,
            configurations=len(configurations),
        )
    return results


def do_recur(results: Collection[AtValue], dimension: Dimension) -> bool:
    """Whether values of a hyperparameter are shared by several configurations.

    Choices are; values of a range are if each is tried twice on average.
    """
    tried = sum(at.configurations for at in results)
    return isinstance(dimension, Choices) or 2 * len(results) <= tried


def axis_of(dimension: Dimension, *, numeric: bool) -> Mapping[str, Any]:
    """Lay out the axis of a hyperparameter; `numeric` if all its values are numbers.

    Ticks of a log axis are full numbers, as Plotly writes `2` for 0.2 and 20, or powers such as
    `2e-5` if values go below a thousandth. Over up to two powers of ten they are at 1, 2 and 5 of
    each, as Plotly writes all nine over each other.
    """
    choices = dimension.choices if isinstance(dimension, Choices) else []
    if not numeric:
        order = list(map(on_axis, choices))
        return {"type": "category", "categoryorder": "array", "categoryarray": order}
    if isinstance(dimension, Choices):
        return {"tickvals": sorted(filter(is_number, choices))}
    if not dimension.log:
        return {"type": "linear", "exponentformat": "e"}
    ticks = {"dtick": "D2"} if dimension.high <= 100 * dimension.low else {"nticks": LOG_TICKS}
    return {"type": "log", "tickformat": "~e" if dimension.low < TINY else "~r", **ticks}
