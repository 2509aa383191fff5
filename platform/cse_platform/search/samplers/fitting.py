"""Prepares the trials that a Gaussian process is fitted to: a bounded number, without outliers."""

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from cse_platform.search.failures import SHOWN_AS_WORST

MOST_FITTED = 250
"""The most trials that a Gaussian process is fitted to, because its cost grows with their cube."""
BEST, NEWEST = 0.4, 0.2
"""Shares of these for the best and for the newest; the others are spread over the space."""
FLOOR = 5.0
"""A value counts as at most this many times as far below the median as the best lies above it."""

_Floats = NDArray[np.float64]


def adjust_values(
    trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]
) -> list[FrozenTrial]:
    """Raise failures to the median of the other trials, and then what is far below to a floor.

    A Gaussian process is smooth: the worst score, with which failures are shown, pulls down what it
    expects on the other side of a border, where the best may lie. And a few values far down would
    otherwise make up most of the standard deviation that values are divided by, so that the good
    ones would look alike. The floor is median - `FLOOR` x (best - median), unless at least half of
    the values equal the best one. Each objective is treated by itself.

    Args:
        trials: complete trials with finite values.
        directions: the direction of each objective.
    """
    heights, failed = _read_heights(trials, directions), find_failures(trials)
    raised = heights.copy()
    if not failed.all():
        raised[failed] = np.median(heights[~failed], axis=0)
    best, median = raised.max(axis=0), np.median(raised, axis=0)
    raised = np.maximum(raised, np.where(best > median, median - FLOOR * (best - median), -np.inf))
    shown = list(trials)
    for index, (old, new) in enumerate(zip(heights, raised, strict=True)):
        if (old != new).any():
            shown[index] = copy.copy(trials[index])
            shown[index].values = (new * _list_signs(directions)).tolist()
    return shown


def find_failures(trials: Sequence[FrozenTrial]) -> NDArray[np.bool_]:
    """Find the failures, which are shown with the worst score; shape (trials,)."""
    return np.array([SHOWN_AS_WORST in trial.user_attrs for trial in trials], dtype=bool)


def select_trials(
    trials: Sequence[FrozenTrial],
    directions: Sequence[StudyDirection],
    coordinates: _Floats,
    is_categorical: NDArray[np.bool_],
) -> list[FrozenTrial]:
    """Select at most `MOST_FITTED` trials: the best, the newest, and some all over the space.

    The best are those with the highest ranks in any objective, feasible ones first. Each of those
    spread over the space is the farthest one from all that are selected before it (Gonzalez 1985,
    Clustering to minimize the maximum intercluster distance).

    Args:
        trials: complete trials with finite values, by age.
        directions: the direction of each objective.
        coordinates: (trials, dimensions) in [0, 1]; of a choice, its index.
        is_categorical: (dimensions,); two choices are 0 or 1 apart.

    Returns:
        The selected trials, by age.
    """
    if len(trials) <= MOST_FITTED:
        return list(trials)
    heights = _read_heights(trials, directions)
    ranks = (-heights).argsort(axis=0, kind="stable").argsort(axis=0).min(axis=1)
    infeasible = [any(excess > 0 for excess in trial.constraints.values()) for trial in trials]
    ranked = sorted(range(len(trials)), key=lambda index: (infeasible[index], ranks[index]))
    newest = range(len(trials) - 1, -1, -1)
    chosen = set(ranked[: round(BEST * MOST_FITTED)])
    chosen.update(newest[: round(NEWEST * MOST_FITTED)])
    apart = np.full(len(trials), np.inf)
    for index in sorted(chosen):
        apart = np.minimum(apart, _measure_distances(coordinates, is_categorical, index))
    while len(chosen) < MOST_FITTED:
        apart[list(chosen)] = -1.0  # also where all trials are in one place
        index = int(apart.argmax())
        chosen.add(index)
        apart = np.minimum(apart, _measure_distances(coordinates, is_categorical, index))
    return [trials[index] for index in sorted(chosen)]


def _measure_distances(
    coordinates: _Floats, is_categorical: NDArray[np.bool_], index: int
) -> _Floats:
    """Measure the squared distances of all trials from one, shape (trials,)."""
    difference = coordinates - coordinates[index]
    return np.asarray(np.where(is_categorical, difference != 0, difference**2).sum(axis=1))


def _read_heights(trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]) -> _Floats:
    """Read the values, shape (trials, objectives), turned so that higher is better."""
    values = np.array([trial.values for trial in trials], dtype=np.float64)
    return np.asarray(values * _list_signs(directions))


def _list_signs(directions: Sequence[StudyDirection]) -> _Floats:
    return np.array([-1.0 if d == StudyDirection.MINIMIZE else 1.0 for d in directions])
