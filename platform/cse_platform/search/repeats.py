"""Choose during a search which configuration gets a further seed, by its expected gain.

A trial of the search can try a new configuration, or a tried one with a further seed. Each option
is worth the expected increase in the mean score of the configuration that is finally chosen: the
knowledge gradient of independent normal means (Frazier, Powell & Dayanik 2008, A knowledge-gradient
policy for sequential information collection). As in SMAC (Hutter, Hoos & Leyton-Brown 2011), a
configuration gets seeds only while it can still become the best. A new configuration counts as one
more mean, distributed like those of the newest configurations.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median

import numpy as np
from scipy.special import ndtr

STARTUP = 10
"""Number of configurations to try before any gets a further seed."""
FIRST_REPEATS = 3
"""Number of further seeds that the two best configurations get first, to estimate the noise."""
MOST_REPEATS = 1 / 3
"""The largest share of a search's trials that are further seeds."""
MOST_SEEDS = 10
"""The most seeds that one configuration gets."""
NEWEST = 12
"""Number of newest configurations from which the worth of a new one is estimated."""
LEAST_SPREAD = 0.05
"""The least share of the variance of scores that is attributed to configurations, not to seeds."""
_MAD = 1.4826
"""The standard deviation of a normal distribution, in units of its median absolute deviation."""

Scores = Mapping[str, Sequence[float]]
"""The dev scores of each configuration's complete seeds, the search's own first, oldest first."""


def choose_repeat(scores: Scores, *, running: Collection[str], trials: int) -> str | None:
    """Choose the configuration for which the next trial runs a further seed.

    Args:
        scores: scores of the configurations that may be chosen.
        running: configurations with a further seed running, which must end first.
        trials: number of trials that the search has begun, further seeds included.

    Returns:
        Its name; None if a new configuration is expected to gain more.
    """
    if len(scores) < STARTUP:
        return None
    free = [name for name in scores if name not in running and len(scores[name]) < MOST_SEEDS]
    further = sum(len(seeds) - 1 for seeds in scores.values())
    if further + len(running) < FIRST_REPEATS:
        best = sorted(scores, key=lambda name: fmean(scores[name]), reverse=True)[:2]
        known_least = [name for name in best if name in free and len(scores[name]) < FIRST_REPEATS]
        return known_least[0] if known_least else None
    if further == 0 or further + len(running) + 1 > MOST_REPEATS * (trials + 1):
        return None
    gains, new = _estimate_gains(scores)
    chosen = max(free, key=lambda name: gains[name], default=None)
    return chosen if chosen is not None and gains[chosen] > new else None


def _estimate_gains(scores: Scores) -> tuple[dict[str, float], float]:
    """Estimate the gain of another seed of each configuration, and of a new configuration."""
    # The variance of scores over seeds, pooled over configurations with several.
    several = [np.asarray(seeds) for seeds in scores.values() if len(seeds) > 1]
    squares = sum(float(((seeds - seeds.mean()) ** 2).sum()) for seeds in several)
    noise = max(squares / sum(len(seeds) - 1 for seeds in several), 1e-10)
    newest = [seeds[0] for seeds in scores.values()][-NEWEST:]
    centre = median(newest)
    variance = max((_MAD * median(abs(score - centre) for score in newest)) ** 2, 1e-12)
    spread = max(variance - noise, LEAST_SPREAD * variance)
    precisions = {name: 1 / spread + len(seeds) / noise for name, seeds in scores.items()}
    means = {
        name: (centre / spread + sum(seeds) / noise) / precisions[name]
        for name, seeds in scores.items()
    }
    first, second = sorted(means.values(), reverse=True)[:2]
    gains = {}
    for name, mean in means.items():
        rival = second if mean == first else first
        moved = math.sqrt(1 / precisions[name] - 1 / (precisions[name] + 1 / noise))
        gains[name] = _expect_excess(abs(mean - rival), moved)
    return gains, _expect_excess(first - centre, spread / math.sqrt(spread + noise))


def _expect_excess(gap: float, deviation: float) -> float:
    """Compute the expected excess over 0 of a normal variable with mean `-gap`; at least 0."""
    ratio = gap / deviation
    density = math.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
    return deviation * (density - ratio * float(ndtr(-ratio)))
