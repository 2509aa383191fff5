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
NEWEST = 100
"""How many of these are the newest, which lie all over the space where the search still explores;
the others are the best."""
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
    trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]
) -> list[FrozenTrial]:
    """Select at most `MOST_FITTED` trials: the `NEWEST`, and the best of the others.

    The best are those with the highest ranks in any objective, feasible ones first. `trials` are
    complete, with finite values, by age; so is the result.
    """
    if len(trials) <= MOST_FITTED:
        return list(trials)
    older, newest = trials[:-NEWEST], trials[-NEWEST:]
    heights = _read_heights(older, directions)
    ranks = (-heights).argsort(axis=0, kind="stable").argsort(axis=0).min(axis=1)
    infeasible = [any(excess > 0 for excess in trial.constraints.values()) for trial in older]
    ranked = sorted(range(len(older)), key=lambda index: (infeasible[index], ranks[index]))
    return [*(older[index] for index in sorted(ranked[: MOST_FITTED - NEWEST])), *newest]


def _read_heights(trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]) -> _Floats:
    """Read the values, shape (trials, objectives), turned so that higher is better."""
    values = np.array([trial.values for trial in trials], dtype=np.float64)
    return np.asarray(values * _list_signs(directions))


def _list_signs(directions: Sequence[StudyDirection]) -> _Floats:
    return np.array([-1.0 if d == StudyDirection.MINIMIZE else 1.0 for d in directions])
