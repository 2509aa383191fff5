"""Simulate a race over seeds on a surface, by the package's rule."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulation import Ended
from surfaces import Surface

from cse_platform.leaderboard.statistics.searches import find_survivors


def raced(
    surface: Surface, best: Sequence[Ended], *, seeds: Sequence[int]
) -> tuple[Mapping[str, Any], int]:
    """Race configurations. Returns the one with the highest mean over seeds, and the trials used.

    As in a sweep, the seed of the search counts in the mean, but not in the race.
    """
    values: dict[str, dict[int, float]] = {str(place): {} for place in range(len(best))}
    trials = 0
    for seed in seeds:
        for name in find_survivors(values, seeds=seeds):
            curve = surface.curve(best[int(name)].assignment, seed=seed)
            values[name][seed] = float(curve.max())
            trials += 1

    def mean(name: str) -> float:
        scores = [best[int(name)].score, *values[name].values()]
        return sum(scores) / len(scores)

    winner = best[int(max(values, key=mean))]
    return winner.assignment, trials
