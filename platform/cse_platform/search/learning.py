"""Build the trials of other sweeps from which a sampler learns."""

import math
from collections.abc import Sequence

import numpy as np
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.search.coordinates import Floats, build_coordinates, measure_distances
from cse_platform.stores.optuna.trials import SOURCE, build_distribution, encode_point
from cse_platform.sweep.space.space import Space
from cse_platform.tracking.events import LearnedTrial

MIN_OWN_TRIALS = 4
"""The number of own trials needed to measure how well other sweeps predict."""
MAX_OWN_TRIALS = 200
"""The most of the newest own trials that are compared, which keeps proposals fast."""
WIDTH = 0.2
"""Width of the kernel by which a trial predicts others near it, as a share of each dimension."""


def learned_trials(
    learned: Sequence[LearnedTrial], space: Space, own: Sequence[FrozenTrial]
) -> list[FrozenTrial]:
    """Build the trials of other sweeps that a sampler gets in addition to the study's own ones.

    Trials from comparable conditions (`alike`) keep their values and are always included. The
    values of the others are rescaled to the mean and spread of the own trials, and all of them are
    included until there are `MIN_OWN_TRIALS` complete own trials. From then on, the share included
    is the guidance that they give (`_measure_guidance`), and each own trial replaces at least one.
    """
    if not learned:
        return []
    done = [trial for trial in own if trial.state == TrialState.COMPLETE][-MAX_OWN_TRIALS:]
    values = np.array([trial.value for trial in done])
    alike = [trial for trial in learned if trial.alike]
    others = [trial for trial in learned if not trial.alike]
    if others and len(done) >= MIN_OWN_TRIALS:
        share = _measure_guidance(others, space, done, values)
        count = min(round(share * len(others)), len(others) - len(done))
        others = pick_evenly_with_ends(
            sorted(others, key=lambda trial: trial.score, reverse=True), max(0, count)
        )
    built = []
    for index, trial in enumerate([*alike, *others]):
        value = trial.value
        if len(values) > 1 and not trial.alike:
            value = float(values.mean() + values.std() * trial.score)
        frozen = create_trial(
            state=TrialState.COMPLETE,
            value=value,
            params=encode_point(trial.values),
            distributions={name: build_distribution(space[name]) for name in trial.values},
            user_attrs={SOURCE: trial.source},
        )
        # Negative numbers make them older than all trials of the study, and different from them.
        frozen.number = -2 - index
        built.append(frozen)
    return built


def _measure_guidance(
    others: Sequence[LearnedTrial], space: Space, own: Sequence[FrozenTrial], values: Floats
) -> float:
    """Measure how well trials of other sweeps predict own values, in [0, 1].

    It is twice Kendall's rank correlation, clipped, between the own values and their predictions: a
    mean of the others' scores weighted by a Gaussian kernel of the distance.
    """
    from scipy.stats import kendalltau  # takes a second, and most searches never need it

    scores = np.array([trial.score for trial in others])
    own_coordinates = build_coordinates([trial.params for trial in own], space)
    other_coordinates = build_coordinates([encode_point(trial.values) for trial in others], space)
    # The nearest trial gets weight 1, so that the prediction of a far point is not 0 / 0.
    exponent = -measure_distances(own_coordinates, other_coordinates) / (2 * WIDTH**2)
    weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    correlation = float(kendalltau(weights @ scores / weights.sum(axis=1), values).statistic)
    return 0.0 if math.isnan(correlation) else min(max(2 * correlation, 0.0), 1.0)


def pick_evenly_with_ends(ranked: Sequence[LearnedTrial], count: int) -> list[LearnedTrial]:
    """Pick `count` trials at equal distances, including the first and the last."""
    return [ranked[round(index)] for index in np.linspace(0, len(ranked) - 1, count)]
