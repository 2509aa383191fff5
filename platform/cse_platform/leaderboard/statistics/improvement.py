"""What another trial of a search would add to its best value."""

from collections.abc import Sequence
from math import exp, sqrt

import numpy as np

LEAST_TRIALS = 20
"""Trials before which nothing is said."""
_TOP = 5
"""Values that the tail is taken from."""


def expected_improvement(values: Sequence[float]) -> float | None:
    r"""How far another trial is expected to raise the best value, in the unit of the values.

    Beyond the sixth highest value u of the later half of the trials, but of at least 20, the tail
    is taken as exponential:

    .. math:: \mathrm{E}[(V - b)^+] \approx \frac{k + 1}{m} \, s \, e^{-(b - u) / s}, \quad
              s = \Big(1 + \frac{1}{\sqrt k}\Big) \frac 1 k \sum_{i=1}^{k} (v_{(i)} - u)

    for the best value b of all, m values and k = 5. The later half stands for what is proposed
    now, because a sampler that learns proposes better ones than at first. The factor is a standard
    error of the mean excess: a search asks after each trial and stops at the first low answer.

    A value includes the luck of its seed, and so does its improvement: noise makes a search go on.
    How well it holds is in docs/statistics.md.

    Args:
        values: what the trials of the search reached, in their order.

    Returns:
        None for fewer than 20 values. 0 where the highest are equal.
    """
    if len(values) < LEAST_TRIALS:
        return None
    recent = np.sort(np.asarray(values[-max(LEAST_TRIALS, len(values) // 2) :], dtype=np.float64))
    tail, threshold = recent[-_TOP:], recent[-_TOP - 1]
    scale = float((tail - threshold).mean()) * (1 + 1 / sqrt(_TOP))
    if scale == 0:
        return 0.0
    return (_TOP + 1) / len(recent) * scale * exp(-(max(values) - float(threshold)) / scale)
