"""Select the configurations that get further seeds, and rank those that a sweep can choose."""

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping
from statistics import fmean
from typing import TypeVar

from cse_platform.leaderboard.board import BestKey, best_key
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.statistics.searches import find_survivors, non_dominated
from cse_platform.search.repeats import choose_repeat
from cse_platform.sweep.blocks import Search
from cse_platform.sweep.objectives import is_feasible, measure
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History, TrialHistory


def to_confirm(
    history: History, *, top: int, constraints: Collection[str] = ()
) -> list[TrialHistory]:
    """Choose the configurations to run with further seeds, each by its first trial, best first.

    They are the `top` ones by the mean dev score of their trials in the search; those that break
    a constraint are left out. Each counts as having one seed, because the number of times that the
    search repeated a configuration says nothing about its quality.
    """
    searched = {
        name: [trial for trial in trials if trial.role != "confirm"]
        for name, trials in history.configurations().items()
    }
    means = {
        name: statistics.fmean(t.best_value for t in trials if t.best_value is not None)
        for name, trials in searched.items()
        if trials and is_feasible(constraints, trials)
    }

    def key(name: str) -> BestKey:
        return best_key(seeds=1, mean=means[name], configuration=name)

    return [searched[name][0] for name in sorted(means, key=key, reverse=True)[:top]]


def choose_repeated(history: History, constraints: Collection[str]) -> TrialHistory | None:
    """Choose the configuration that gets a further seed during the search, by its first trial.

    Returns None where a new configuration is expected to gain more. A configuration that broke a
    constraint or has a failed seed is never chosen.
    """
    failed = {trial.configuration for trial in history.trials.values() if trial.state == "FAIL"}
    tried = {
        name: trials
        for name, trials in history.configurations().items()
        if trials[0].role == "search" and name not in failed and is_feasible(constraints, trials)
    }
    running = [t.configuration for t in history.unfinished() if t.role == "repeat"]
    scores = {name: dev_values(trials) for name, trials in tried.items()}
    chosen = choose_repeat(scores, running=running, trials=history.searched)
    return None if chosen is None else tried[chosen][0]


def further_seeds(history: History, spec: SweepSpec) -> Iterator[tuple[TrialHistory, int]]:
    """Yield the first trial of a configuration with a seed that it still lacks, in order.

    In a race, every configuration that can still be the best begins a seed before any of them
    begins the next one; it need not end first, because a free device costs no extra time. Trials
    that are recorded during the iteration count from its next step on.
    """
    asked, confirm = spec.seeds, spec.seeds.confirm
    if confirm is None:
        return
    first_trials = to_confirm(history, top=confirm.top, constraints=spec.search.constraints)
    best = {first.key: first for first in first_trials}

    def tried(key: str) -> list[TrialHistory]:
        alike = best[key].configuration
        return [trial for trial in history.trials.values() if trial.configuration == alike]

    def lacks(key: str, seed: int) -> bool:
        return all(trial.seed != seed for trial in tried(key))

    if not confirm.race:
        yield from ((best[key], seed) for key in best for seed in confirm.seeds if lacks(key, seed))
        return
    for seed in asked.further:
        fresh: dict[str, dict[int, float | None]] = {key: {} for key in best}
        for key, values in fresh.items():
            for trial in tried(key):
                # A score of the search was used to choose the configuration: it is biased upwards.
                counts = trial.role == "confirm" and trial.state == "COMPLETE"
                if trial.state != "RUNNING":
                    values[trial.seed] = trial.best_value if counts else None
        racing = find_survivors(fresh, seeds=asked.further)
        yield from ((best[key], seed) for key in racing if lacks(key, seed))


Seeds = list[TrialHistory]
"""The complete trials of one configuration."""
AnyTrial = TypeVar("AnyTrial", Trial, TrialHistory)
"""A trial as the leaderboard has it, or as its driver does."""


def best_configurations(
    configurations: Mapping[str, list[AnyTrial]], *, constraints: Iterable[str] = ()
) -> list[list[AnyTrial]]:
    """Rank the configurations that keep the constraints, the best on dev first.

    Takes the complete trials of each configuration of a sweep. Uses the leaderboard's rule on
    these seeds alone.
    """

    def key(seeds: list[AnyTrial]) -> BestKey:
        values = dev_values(seeds)
        configuration = seeds[0].configuration
        return best_key(seeds=len(values), mean=fmean(values), configuration=configuration)

    feasible = [seeds for seeds in configurations.values() if is_feasible(constraints, seeds)]
    return sorted(feasible, key=key, reverse=True)


def chosen_trials(history: History, spec: SweepSpec, *, top: int) -> list[TrialHistory]:
    """List every complete trial of the `top` configurations, in the order of `best_configurations`.

    The averages of exactly these seeds follow if they have a model, which means that they are
    better than the best of their seeds.
    """
    best = best_configurations(history.configurations(), constraints=spec.search.constraints)
    averages = [find_average(history, seeds) for seeds in best[:top]]
    return [
        *(trial for seeds in best[:top] for trial in seeds),
        *(average for average in averages if average is not None and average.model is not None),
    ]


def find_average(history: History, seeds: Seeds) -> TrialHistory | None:
    """Find the complete average of the weights of exactly these seeds; None if there is none."""
    keys = {trial.key for trial in seeds}
    return next(
        (t for t in history.trials.values() if t.state == "COMPLETE" and {*t.averages} == keys),
        None,
    )


def seeds_to_average(history: History, spec: SweepSpec) -> list[Seeds]:
    """List the complete seeds of each confirmed configuration whose average is still missing."""
    confirm = spec.seeds.confirm
    if confirm is None or not confirm.average:
        return []
    complete = history.configurations()
    first_trials = to_confirm(history, top=confirm.top, constraints=spec.search.constraints)
    every = [complete[first.configuration] for first in first_trials]
    return [seeds for seeds in every if len(seeds) > 1 and find_average(history, seeds) is None]


def pareto_front(history: History, search: Search) -> list[Seeds]:
    """Compute the Pareto front of the feasible configurations.

    Configurations are compared by their means over seeds and sorted by the first objective, the
    best first.
    """
    means = []
    for seeds in best_configurations(history.configurations(), constraints=search.constraints):
        measures = [[measure(trial, one.name) for trial in seeds] for one in search.objectives]
        known = [[value for value in values if value is not None] for values in measures]
        if all(known):
            means.append((seeds, [fmean(values) for values in known]))
    front = non_dominated([point for _, point in means], search.directions)
    best = sorted(
        (means[index] for index in front),
        key=lambda seeds_and_means: seeds_and_means[1],
        reverse=search.directions[0] == "maximize",
    )
    return [seeds for seeds, _ in best]


def dev_values(seeds: Iterable[Trial | TrialHistory]) -> list[float]:
    """List the dev scores of a configuration's seeds."""
    return [trial.best_value for trial in seeds if trial.best_value is not None]
