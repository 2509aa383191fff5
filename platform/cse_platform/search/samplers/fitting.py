"""Prepares the trials that a Gaussian process is fitted to: pruned ones too, a bounded number,
without outliers, and with the failures marked.
"""

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from optuna.trial import FrozenTrial, TrialState

from cse_platform.search.failures import SHOWN_AS_WORST, read_value

MOST_FITTED = 250
"""The most trials that a Gaussian process is fitted to, because its cost grows with their cube."""
NEWEST = 100
"""How many of these are the newest, which lie all over the space where the search still explores;
the others are the best."""
FLOOR = 5.0
"""A value counts as at most this many times as far below the median as the best lies above it."""


def show_to_gp(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Show trials as a Gaussian process is to see them, by age; those that run stay as they are.

    A pruned trial has ended with its last dev point: a sampler that does not see it proposes its
    neighbours again and again. Of many trials some are shown (`select_trials`), without outliers
    (`adjust_values`). Where some have failed, all have a constraint that says so: then Optuna's
    sampler multiplies what may be gained by the probability that a trial does not fail, which a
    second Gaussian process learns (Gelbart et al. 2014, Bayesian optimization with unknown
    constraints, equation 5).
    """
    ended = []
    for trial in trials:
        if (value := read_value(trial)) is not None:
            ended.append(shown := copy.copy(trial))
            shown.state, shown.value = TrialState.COMPLETE, value
    fitted = select_trials(adjust_values(ended)) if ended else []
    failed = find_failures(fitted)
    if failed.any():
        for trial, failure in zip(fitted, failed, strict=True):
            trial.system_attrs = dict(trial.system_attrs)  # not those of the study's own trial
            trial.set_constraint("fails", 1.0 if failure else -1.0)
    return [*fitted, *(trial for trial in trials if trial.state == TrialState.RUNNING)]


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
