"""A search prepared for its figures: its trials, their results by value, and axes for values."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, variance
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import HOVER, Quantity, dev_quantity, number
from cse_dashboards.figures.picture import colour, fade
from cse_platform.leaderboard.past_searches import SearchHistory
from cse_platform.leaderboard.records import Trial, select_counting_trials
from cse_platform.leaderboard.statistics.searches import LEAST_SEARCHED
from cse_platform.search.findings import SearchFindings, search_findings
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.values import canonical_json

TRIAL_COLUMN, KEY_COLUMN = "trial", "key"
PAIR = ("tau2", "tau3")
"""The hyperparameters of RankCSE's figure 3."""


class StudiedSearch:
    """The search of one sweep; its findings are computed once, when a figure first needs them."""

    def __init__(self, history: SearchHistory) -> None:
        self.history = history
        self.quantity = dev_quantity(history.dev)

    @property
    def scored(self) -> list[Trial]:
        """The complete trials of the search itself, without further seeds."""
        return [
            trial
            for trial in self.history.trials
            if trial.role == "search" and trial.state == "COMPLETE" and trial.best_value is not None
        ]

    @cached_property
    def findings(self) -> SearchFindings | None:
        """The findings of the search; None if it is too short."""
        return search_findings(self.history)

    @property
    def too_short(self) -> str:
        """Explain why there are no findings."""
        few = f"fewer than {LEAST_SEARCHED} of these trials"
        return f"{few} of sweep {self.history.sweep} are complete with a score"


def scores_of(trials: Sequence[Trial], quantity: Quantity, *names: str) -> pd.DataFrame:
    """Make the data of a figure: a line per trial with its score and these hyperparameters.

    Their values are as on an axis; None stands for an inactive one.
    """
    records = [
        {
            TRIAL_COLUMN: trial.number,
            KEY_COLUMN: trial.key,
            "configuration": trial.configuration[:8],
            "seed": trial.seed,
            quantity.title: quantity.factor * (trial.best_value or 0.0),
        }
        for trial in trials
    ]
    data = pd.DataFrame(records)
    for name in names:
        values = [
            on_axis(trial.searched_values[name]) if name in trial.searched_values else None
            for trial in trials
        ]
        data[name] = pd.Series(values, dtype=object)
    return data


def mark_trials(data: pd.DataFrame, x: str, y: str) -> go.Scatter:
    """Draw a marker for each line of `scores_of`, which leads to its trial."""
    sides = {"x": data[x].tolist(), "y": data[y].tolist()}
    marker = {"color": fade(colour(0), 0.8), "size": 7}
    ids = data[TRIAL_COLUMN].astype(str).tolist()
    return go.Scatter(
        name="trial", mode="markers", marker=marker, ids=ids, hovertemplate=HOVER, **sides
    )


def sample_note(history: SearchHistory) -> str:
    """Format a caption note if some trials are not shown."""
    if not history.is_sample:
        return ""
    return (
        f" Of {history.total} trials {len(history.trials)} are shown: the best half as many, and "
        "an even sample of the others."
    )


def weighted_note(history: SearchHistory) -> str:
    """Describe for captions of means how a sample of trials is weighted, if it is one."""
    weighted = " In the means each counts for as many trials as it stands for."
    return sample_note(history) + weighted * history.is_sample


def nothing_searched(history: SearchHistory) -> str:
    """Explain why a search whose space is empty has no picture."""
    return (
        f"what sweep {history.sweep} searched is unknown: its file is not on the leaderboard, "
        "or its space: is empty"
    )


def pair_of(history: SearchHistory, x: str | None, y: str | None) -> Sequence[str]:
    """Choose two hyperparameters: those requested, then the paper's, or those with most values.

    There are fewer than two if the search has no more.
    """
    most = sorted(history.space, key=lambda name: -len(by_value(history.trials, name)))
    usual = [*PAIR, *most] if all(name in history.space for name in PAIR) else most
    free = [name for name in usual if name not in (x, y)]
    filled = [name if name is not None else free.pop(0) for name in (x, y) if name or free]
    return list(dict.fromkeys(filled))


LEAST_TICKS = 3
"""Fewest ticks of a log axis that coarse ones must give."""


@dataclass(frozen=True)
class AtValue:
    """Results of a search at one value of a hyperparameter, as fractions."""

    mean: float
    """The mean over configurations, each the mean of its seeds, weighted if trials are a sample."""
    std: float | None
    """The standard deviation over seeds, pooled within configurations; None if none has two."""
    configurations: int


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether values belong on a numeric axis; infinity does, and `true` does not."""
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def on_axis(value: Any) -> Any:
    """Return numbers and texts as they are, anything else as JSON."""
    return value if are_numbers([value]) or isinstance(value, str) else canonical_json(value)


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
    """Group the results of complete trials by their values of these hyperparameters.

    Of each configuration, the seeds count that count on the leaderboard.
    """
    groups: dict[Any, dict[str, list[Trial]]] = defaultdict(lambda: defaultdict(list))
    for trial in scored_with(trials, *names):
        point = tuple(on_axis(trial.searched_values[name]) for name in names)
        groups[point][trial.configuration].append(trial)
    results = {}
    for point, configurations in groups.items():
        counting = list(map(select_counting_trials, configurations.values()))
        values = [[trial.best_value or 0.0 for trial in seeds] for seeds in counting]
        weights = [[trial.weight for trial in seeds] for seeds in counting]
        freedom = sum(len(seeds) - 1 for seeds in values)
        squares = sum(variance(s) * (len(s) - 1) for s in values if len(s) > 1)
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
    tried = sum(result.configurations for result in results)
    return isinstance(dimension, Choices) or 2 * len(results) <= tried


def axis_of(dimension: Dimension, values: Iterable[Any]) -> Mapping[str, Any]:
    """Lay out the axis of a hyperparameter for the values that are shown.

    Values that are not all numbers are categories, in the order of the file. The ticks of a log
    axis are full numbers, as Plotly writes `2` for 0.2 and 20, or none over less than a power of
    ten.
    """
    shown = set(map(on_axis, values))
    if not are_numbers(shown):
        choices = dimension.choices if isinstance(dimension, Choices) else []
        order = list(map(on_axis, choices))
        return {"type": "category", "categoryorder": "array", "categoryarray": order}
    if isinstance(dimension, Choices):
        return {"tickvals": sorted(shown)}
    if not dimension.log:
        return {"type": "linear", "exponentformat": "e"}
    ticks = _choose_log_ticks(min(shown), max(shown))
    return {"type": "log", "tickvals": ticks, "ticktext": list(map(number, ticks))}


def _choose_log_ticks(low: float, high: float) -> list[float]:
    """Choose ticks from `low` to `high`: powers of ten, or also 2 and 5 of each, or all digits;
    the ends themselves if these are fewer than two.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits, least in (((1,), LEAST_TICKS), ((1, 2, 5), LEAST_TICKS), (range(1, 10), 2)):
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        if len(inside := [tick for tick in ticks if low <= tick <= high]) >= least:
            return inside
    return sorted({low, high})
