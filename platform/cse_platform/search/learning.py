"""Builds trials that a sampler learns from: other sweeps' trials, and failed ones as the worst."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from scipy.stats import kendalltau

from cse_platform.search.distributions import build_distribution, encode
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import LearnedTrial

SOURCE = "learned_from"
"""The user attribute with a trial's sweep and number there."""
LEAST_OWN = 4
"""Number of own trials that can tell whether other sweeps are a guide."""
MOST_OWN = 200
"""Number of newest own trials that are compared, so that an ask stays cheap."""
WIDTH = 0.2
"""Width of a trial's influence on predictions, as a share of each dimension."""

_Floats = NDArray[np.float64]


def learned_trials(
    learned: Sequence[LearnedTrial], space: Space, own: Sequence[FrozenTrial]
) -> list[FrozenTrial]:
    """Build the trials of other sweeps that a sampler gets beside a study's own ones.

    Values from other conditions are moved to the mean and the spread of the own ones. All of these
    are given before there are `LEAST_OWN` own trials. Then their number depends on how far they are
    a guide: none where they mislead, and one fewer for each own trial.
    """
    if not learned:
        return []
    done = [trial for trial in own if trial.state == TrialState.COMPLETE][-MOST_OWN:]
    values = np.array([trial.value for trial in done])
    alike = [trial for trial in learned if trial.alike]
    others = [trial for trial in learned if not trial.alike]
    if others and len(done) >= LEAST_OWN:
        share = _measure_guidance(others, space, done, values)
        count = min(round(share * len(others)), len(others) - len(done))
        others = pick_evenly(
            sorted(others, key=lambda trial: trial.score, reverse=True), max(0, count)
        )
    moved = _rescale_values(others, values)
    valued = [*((trial, trial.value) for trial in alike), *zip(others, moved, strict=True)]
    return [_build_trial(trial, value, space, i) for i, (trial, value) in enumerate(valued)]


def _measure_guidance(
    others: Sequence[LearnedTrial], space: Space, own: Sequence[FrozenTrial], values: _Floats
) -> float:
    """Measure how far others are a guide: twice a rank correlation, cut to 0 to 1.

    It correlates own values with what the others would predict: the mean of the others' values,
    each counted by how near it is.
    """
    scores = np.array([trial.score for trial in others])
    here = _build_coordinates([trial.params for trial in own], space)
    there = _build_coordinates([_encode_values(trial.values) for trial in others], space)
    apart = here[:, None, :] - there[None, :, :]
    missing = np.isnan(apart)
    both = np.isnan(here)[:, None, :] & np.isnan(there)[None, :, :]
    distance = np.where(missing, np.where(both, 0.0, 1.0), np.minimum(np.abs(apart), 1.0))
    # The nearest counts 1, so that the prediction of a far point is not 0 / 0.
    exponent = -(distance**2).sum(axis=2) / (2 * WIDTH**2)
    weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    correlation = float(kendalltau(weights @ scores / weights.sum(axis=1), values).statistic)
    return 0.0 if math.isnan(correlation) else min(max(2 * correlation, 0.0), 1.0)


def pick_evenly(ranked: Sequence[LearnedTrial], count: int) -> list[LearnedTrial]:
    """Pick `count` trials at even distances, the first and the last among them."""
    if count < 2:
        return list(ranked[:count])
    return [ranked[round(place * (len(ranked) - 1) / (count - 1))] for place in range(count)]


def _rescale_values(others: Sequence[LearnedTrial], own: _Floats) -> list[float]:
    """Rescale the values of these trials to the own ones, as soon as there are two."""
    if len(own) < 2:
        return [trial.value for trial in others]
    return [float(own.mean() + own.std() * trial.score) for trial in others]


def _build_coordinates(params: Sequence[Mapping[str, Any]], space: Space) -> _Floats:
    """Build the coordinates of trials: a row a trial, a column a dimension, NaN for no value.

    Two numbers of a range are at most 1 apart, two choices at least 1.
    """
    rows = [
        [_locate_value(space[name], row[name]) if name in row else math.nan for name in space]
        for row in params
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(space))


def _locate_value(dimension: Dimension, value: Any) -> float:
    if isinstance(dimension, Choices):
        return [encode(choice) for choice in dimension.choices].index(value)
    low, high, number = dimension.low, dimension.high, value
    if dimension.log:
        low, high, number = math.log(low), math.log(high), math.log(number)
    return float((number - low) / (high - low))


def _encode_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: encode(value) for name, value in values.items()}


def _build_trial(learned: LearnedTrial, value: float, space: Space, place: int) -> FrozenTrial:
    trial = create_trial(
        state=TrialState.COMPLETE,
        value=value,
        params=_encode_values(learned.values),
        distributions={name: build_distribution(space[name]) for name in learned.values},
        user_attrs={SOURCE: learned.source},
    )
    # Below those of the study: older than all of its trials, and none of them.
    trial.number = trial._trial_id = -2 - place
    return trial


FAILURE_CAUSE = "failure_cause"
"""User attribute of a failed trial with the cause, as of `TrialFinished`."""
RETRY_OF = "retry_of"
"""User attribute of a trial with the number of the one whose values it tries again."""
_CONSTRAINT = "constraints:"
"""Prefix of Optuna's system attribute of a constraint."""


def show_failures(
    trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]
) -> list[FrozenTrial]:
    """Show failures to a sampler as complete trials with the worst finite values so far.

    Failures are trials that failed of their own configuration and were not tried again, and trials
    whose values are not finite. The worst is taken of each objective and each constraint for
    itself. Before any trial has finite values there is no worst, and a sampler sees none of them.
    """
    tried_again = {trial.user_attrs.get(RETRY_OF) for trial in trials}
    values = [row for trial in trials if (row := _read_values(trial)) and _are_finite(row)]
    worst = [
        max(column) if direction == StudyDirection.MINIMIZE else min(column)
        for column, direction in zip(zip(*values, strict=True), directions, strict=False)
    ]
    limits = _find_worst_constraints(trials)
    return [
        _show_as_worst(trial, worst, limits) if _is_failure(trial, tried_again) else trial
        for trial in trials
    ]


def _is_failure(trial: FrozenTrial, tried_again: set[int | None]) -> bool:
    if trial.state == TrialState.FAIL:
        own = trial.user_attrs.get(FAILURE_CAUSE) == "trial"
        return own and trial.number not in tried_again
    return not _are_finite([*(_read_values(trial) or ()), *trial.constraints.values()])


def _read_values(trial: FrozenTrial) -> list[float] | None:
    """Read the values of a trial; of a pruned one, its last dev point."""
    if trial.state == TrialState.PRUNED and trial.intermediate_values:
        return [trial.intermediate_values[max(trial.intermediate_values)]]
    return trial.values if trial.state == TrialState.COMPLETE else None


def _find_worst_constraints(trials: Sequence[FrozenTrial]) -> dict[str, float]:
    """Map each constraint's system attribute to its highest finite excess."""
    worst: dict[str, float] = {}
    for trial in trials:
        for name, excess in trial.constraints.items():
            if math.isfinite(excess):
                known = worst.get(_CONSTRAINT + name, excess)
                worst[_CONSTRAINT + name] = max(known, excess)
    return worst


def _show_as_worst(
    trial: FrozenTrial, worst: Sequence[float], limits: dict[str, float]
) -> FrozenTrial:
    shown = copy.copy(trial)
    shown.state = TrialState.COMPLETE if worst else TrialState.FAIL
    shown.values = list(worst) or None
    shown.system_attrs = {**trial.system_attrs, **limits}
    return shown


def _are_finite(values: Sequence[float]) -> bool:
    return all(map(math.isfinite, values))
