"""Prepares the trials that a Gaussian process is fitted to: a bounded number, without outliers.

Failures, which are shown with the worst score, are raised to the median.
"""

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


def raise_failures(
    trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]
) -> list[FrozenTrial]:
    """Raise failures, which are shown with the worst score, to the median of the other trials.

    A Gaussian process is smooth: the worst score on one side of a border pulls down what it expects
    on the other side, where the best may lie. The median is taken of each objective by itself.

    Args:
        trials: complete trials with finite values.
        directions: the direction of each objective.
    """
    failed = find_failures(trials)
    if failed.all():
        return list(trials)
    median = np.median(_read_heights(trials, directions)[~failed], axis=0)
    return [
        _copy_with_values(trial, median * _list_signs(directions)) if failure else trial
        for trial, failure in zip(trials, failed, strict=True)
    ]


def find_failures(trials: Sequence[FrozenTrial]) -> NDArray[np.bool_]:
    """Find the failures, which are shown with the worst score; shape (trials,)."""
    return np.array([SHOWN_AS_WORST in trial.user_attrs for trial in trials], dtype=bool)


def standardize_labels(failed: NDArray[np.bool_]) -> tuple[_Floats, float]:
    """Label failures -1 and other trials 1, and standardize the labels.

    Returns:
        The labels, shape (trials,), of mean 0 and standard deviation 1; and the border half-way
        between the two, in the same scale.
    """
    labels = np.where(failed, -1.0, 1.0)
    mean, deviation = labels.mean(), labels.std()
    return (labels - mean) / deviation, float(-mean / deviation)


def floor_outliers(
    trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]
) -> list[FrozenTrial]:
    """Raise values far below the median to a floor: median - `FLOOR` x (best - median).

    A few values far down would otherwise make up most of the standard deviation that values are
    divided by, and the good ones would look alike. It is done for each objective of itself. Where
    at least half of the values equal the best one, there is no scale, and nothing is changed.

    Args:
        trials: complete trials with finite values.
        directions: the direction of each objective.
    """
    heights = _read_heights(trials, directions)
    best, median = heights.max(axis=0), np.median(heights, axis=0)
    floor = np.where(best > median, median - FLOOR * (best - median), -np.inf)
    raised = np.maximum(heights, floor)
    return [
        trial if (old == new).all() else _copy_with_values(trial, new * _list_signs(directions))
        for trial, old, new in zip(trials, heights, raised, strict=True)
    ]


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
    ranked = sorted(range(len(trials)), key=lambda place: (infeasible[place], ranks[place]))
    newest = range(len(trials) - 1, -1, -1)
    chosen = set(ranked[: round(BEST * MOST_FITTED)])
    chosen.update(newest[: round(NEWEST * MOST_FITTED)])
    apart = np.full(len(trials), np.inf)
    for place in sorted(chosen):
        apart = np.minimum(apart, _measure_distances(coordinates, is_categorical, place))
    while len(chosen) < MOST_FITTED:
        apart[list(chosen)] = -1.0  # also where all trials are in one place
        place = int(apart.argmax())
        chosen.add(place)
        apart = np.minimum(apart, _measure_distances(coordinates, is_categorical, place))
    return [trials[place] for place in sorted(chosen)]


def _measure_distances(
    coordinates: _Floats, is_categorical: NDArray[np.bool_], place: int
) -> _Floats:
    """Measure the squared distances of all trials from one, shape (trials,)."""
    difference = coordinates - coordinates[place]
    return np.asarray(np.where(is_categorical, difference != 0, difference**2).sum(axis=1))


def _read_heights(trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]) -> _Floats:
    """Read the values, shape (trials, objectives), turned so that higher is better."""
    values = np.array([trial.values for trial in trials], dtype=np.float64)
    return np.asarray(values * _list_signs(directions))


def _list_signs(directions: Sequence[StudyDirection]) -> _Floats:
    return np.array([-1.0 if one == StudyDirection.MINIMIZE else 1.0 for one in directions])


def _copy_with_values(trial: FrozenTrial, values: _Floats) -> FrozenTrial:
    shown = copy.copy(trial)
    shown.values = values.tolist()
    return shown
