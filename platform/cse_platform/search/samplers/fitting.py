"""Prepares the trials that a Gaussian process is fitted to: a bounded number, without outliers."""

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from optuna.trial import FrozenTrial

from cse_platform.search.failures import SHOWN_AS_WORST

MOST_FITTED = 250
"""The most trials that a Gaussian process is fitted to, because its cost grows with their cube."""
NEWEST = 100
"""How many of these are the newest, which lie all over the space where the search still explores;
the others are the best."""
FLOOR = 5.0
"""A value counts as at most this many times as far below the median as the best lies above it."""


def adjust_values(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Raise failures to the median of the other trials, and then what is far below to a floor.

    A Gaussian process is smooth: the worst score, with which failures are shown, pulls down what it
    expects on the other side of a border, where the best may lie. And a few values far down would
    otherwise make up most of the standard deviation that values are divided by, so that the good
    ones would look alike. The floor is median - `FLOOR` x (best - median), unless at least half of
    the values equal the best one.

    Args:
        trials: complete trials with finite values, of which the highest is the best.
    """
    values, failed = _read_values(trials), find_failures(trials)
    raised = values.copy()
    if not failed.all():
        raised[failed] = np.median(values[~failed])
    best, median = raised.max(), np.median(raised)
    if best > median:
        raised = np.maximum(raised, median - FLOOR * (best - median))
    shown = list(trials)
    for index in np.flatnonzero(raised != values).tolist():
        shown[index] = copy.copy(trials[index])
        shown[index].value = float(raised[index])
    return shown


def find_failures(trials: Sequence[FrozenTrial]) -> NDArray[np.bool_]:
    """Find the failures, which are shown with the worst score; shape (trials,)."""
    return np.array([SHOWN_AS_WORST in trial.user_attrs for trial in trials], dtype=bool)


def select_trials(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Select at most `MOST_FITTED` trials: the `NEWEST`, and those of the highest values before.

    `trials` are complete, with finite values, by age; so is the result.
    """
    if len(trials) <= MOST_FITTED:
        return list(trials)
    older, newest = trials[:-NEWEST], trials[-NEWEST:]
    best = (-_read_values(older)).argsort(kind="stable")[: MOST_FITTED - NEWEST]
    return [*(older[index] for index in sorted(best)), *newest]


def _read_values(trials: Sequence[FrozenTrial]) -> NDArray[np.float64]:
    """Read the values, shape (trials,)."""
    return np.array([trial.value for trial in trials], dtype=np.float64)
