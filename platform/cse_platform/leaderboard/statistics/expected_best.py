"""The best value that so many trials of a search are expected to reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from cse_platform.leaderboard.statistics.intervals import TAILS

_RESAMPLES = 1000
_LEAST, _DRAWN = 100, 10_000_000
"""The fewest resamples, and the values in all of them together: of more values fewer do."""


@dataclass(frozen=True)
class ExpectedBest:
    """What so many trials reach, in the unit of the values."""

    trials: int
    mean: float
    low: float
    high: float
    """The ends of a 95 % interval, of a bootstrap over the trials."""


def expected_best(
    values: Sequence[float], sizes: Sequence[int], *, resamples: int = _RESAMPLES, seed: int = 0
) -> list[ExpectedBest]:
    r"""Expected validation performance of n of N trials, for each n of `sizes`.

    .. math:: U(n) = \sum_{i=n}^{N} v_{(i)} \binom{i - 1}{n - 1} \Big/ \binom{N}{n}

    for the values in rising order: the mean, over all sets of n of the trials, of the best of a
    set. For trials that do not depend on each other, as those of random search, it is without bias
    the expected best of n. The estimate of Dodge et al. draws the n with replacement, and so is too
    low, by a tenth of a standard deviation at half of 40 normal trials.

    A sampler that learns draws later trials elsewhere: of its trials this is what n reach that are
    taken in any order.

    The interval is a percentile interval of a bootstrap of the trials, of the estimate with
    replacement, moved by the difference of the two estimates. How often it holds is in
    docs/statistics.md: less than 95 %, and the less the nearer n is to N.

    Returns:
        In the order of `sizes`.

    Raises:
        ValueError: if a size is below 1 or above the number of values.

    Source:
        Dodge et al. 2019, Show your work: improved reporting of experimental results, eq. 4;
        Tang et al. 2020, Showing your work doesn't always work, on its bias.
    """
    count = len(values)
    if any(not 1 <= size <= count for size in sizes):
        raise ValueError(f"expected sizes from 1 to {count}, as many as values, got {list(sizes)}")
    asked = np.asarray(sizes, dtype=np.float64)
    observed = np.sort(np.asarray(values, dtype=np.float64))
    places = np.arange(count + 1, dtype=np.float64)[:, None]
    with_replacement = np.diff((places / count) ** asked, axis=0)
    inside = _log_binomial(places[1:] - 1, asked - 1) - _log_binomial(count, asked)
    means = observed @ np.exp(inside)
    rng = np.random.default_rng(seed)
    resamples = min(resamples, max(_LEAST, _DRAWN // count))
    drawn = np.sort(observed[rng.integers(0, count, (resamples, count))], axis=1) @ with_replacement
    shift = means - observed @ with_replacement
    low, high = np.quantile(drawn, TAILS, axis=0) + shift
    found = zip(sizes, means.tolist(), low.tolist(), high.tolist(), strict=True)
    return [ExpectedBest(*one) for one in found]


def _log_binomial(above: Any, below: Any) -> NDArray[np.float64]:
    """Of `above` over `below`; minus infinity where there is no such set."""
    fits = below <= above
    least = np.where(fits, above - below, 0)
    logs = gammaln(above + 1) - gammaln(below + 1) - gammaln(least + 1)
    found: NDArray[np.float64] = np.where(fits, logs, -np.inf)
    return found
