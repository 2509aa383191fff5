"""Which configurations a sweep may choose, and which of them it takes for the best."""

from collections.abc import Iterable
from statistics import fmean

from cse_platform.leaderboard.query.board.best import BestKey, best_key
from cse_platform.leaderboard.statistics.intervals import lower_bound
from cse_platform.leaderboard.statistics.pareto import non_dominated
from cse_platform.sweep.blocks import SeedsValue
from cse_platform.sweep.objectives import is_feasible, measure
from cse_platform.sweep.search_block import Search
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History
from cse_platform.tracking.trial_history import TrialHistory

Seeds = list[TrialHistory]
"""The complete trials of one configuration."""


def best_configurations(
    history: History, *, constraints: Iterable[str] = (), value: SeedsValue = "mean"
) -> list[Seeds]:
    """The configurations that keep the constraints, the best on dev first.

    By the rule of the leaderboard, of this sweep's seeds alone; with `lower_bound` by the value
    that the mean of further seeds is above with 95 % confidence, which one seed does not give.
    """

    def key(seeds: Seeds) -> BestKey:
        values = dev_values(seeds)
        bound = lower_bound(values) if value == "lower_bound" else None
        mean = fmean(values) if bound is None else bound
        return best_key(seeds=len(values), mean=mean, configuration=seeds[0].configuration)

    return sorted(_feasible(history, constraints), key=key, reverse=True)


def chosen_trials(history: History, spec: SweepSpec, *, top: int) -> list[TrialHistory]:
    """Every complete trial of the best configurations, by the sweep's own rule."""
    best = best_configurations(history, constraints=spec.search.constraints, value=spec.seeds.value)
    return [trial for seeds in best[:top] for trial in seeds]


def pareto_front(history: History, search: Search) -> list[Seeds]:
    """The feasible configurations than which no other is better in all objectives.

    By the means over their seeds, in the order of the first objective.
    """
    means = [
        (seeds, [fmean(values) for values in found])
        for seeds in _feasible(history, search.constraints)
        if all(found := [_measures(seeds, one.name) for one in search.objectives])
    ]
    front = non_dominated([point for _, point in means], search.directions)
    best = sorted(
        (means[place] for place in front),
        key=lambda one: one[1],
        reverse=search.directions[0] == "maximize",
    )
    return [seeds for seeds, _ in best]


def dev_values(seeds: Seeds) -> list[float]:
    """The dev scores of a configuration's seeds."""
    return [trial.best_value for trial in seeds if trial.best_value is not None]


def _feasible(history: History, constraints: Iterable[str]) -> list[Seeds]:
    every = history.configurations().values()
    return [seeds for seeds in every if is_feasible(constraints, seeds)]


def _measures(seeds: Seeds, name: str) -> list[float]:
    found = (measure(trial, name) for trial in seeds)
    return [value for value in found if value is not None]
