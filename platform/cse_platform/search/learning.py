"""Builds the trials of other sweeps that a sampler learns from."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.search.coordinates import Floats, build_coordinates, measure_distances
from cse_platform.search.distributions import build_distribution, encode
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
    others: Sequence[LearnedTrial], space: Space, own: Sequence[FrozenTrial], values: Floats
) -> float:
    """Measure how far others are a guide: twice a rank correlation, cut to 0 to 1.

    It correlates own values with what the others would predict: the mean of the others' values,
    each counted by how near it is.
    """
    from scipy.stats import kendalltau  # a second, and most searches begin with no others

    scores = np.array([trial.score for trial in others])
    here = build_coordinates([trial.params for trial in own], space)
    there = build_coordinates([_encode_values(trial.values) for trial in others], space)
    # The nearest counts 1, so that the prediction of a far point is not 0 / 0.
    exponent = -measure_distances(here, there) / (2 * WIDTH**2)
    weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    correlation = float(kendalltau(weights @ scores / weights.sum(axis=1), values).statistic)
    return 0.0 if math.isnan(correlation) else min(max(2 * correlation, 0.0), 1.0)


def pick_evenly(ranked: Sequence[LearnedTrial], count: int) -> list[LearnedTrial]:
    """Pick `count` trials at even distances, the first and the last among them."""
    if count < 2:
        return list(ranked[:count])
    return [ranked[round(place * (len(ranked) - 1) / (count - 1))] for place in range(count)]


def _rescale_values(others: Sequence[LearnedTrial], own: Floats) -> list[float]:
    """Rescale the values of these trials to the own ones, as soon as there are two."""
    if len(own) < 2:
        return [trial.value for trial in others]
    return [float(own.mean() + own.std() * trial.score) for trial in others]


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
