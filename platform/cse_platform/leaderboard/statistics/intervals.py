"""95 % intervals of a mean, over seeds or over pairs, and of a rank; draws of errors over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # Student's quantiles; scipy.stats takes a second to import

Spread = Literal["seeds", "pairs"]
"""What an interval covers: seeds, by Student's t, or pairs, by a bootstrap for a single seed, which
does not cover the spread over seeds.
"""


@dataclass(frozen=True)
class Interval:
    """A 95 % interval of the true value, for the spread that `over` names."""

    low: float
    high: float
    over: Spread


@dataclass(frozen=True)
class RankInterval:
    """The 2.5 to 97.5 percentile of a row's ranks over joint resamples; 1 is the best."""

    best: int
    worst: int
    among: int
    """The number of rows that were ranked."""


Floats = NDArray[np.float64]
TAILS = (0.025, 0.975)


def seed_interval(values: Sequence[float]) -> Interval | None:
    r"""Compute Student's interval of the mean over seeds.

    .. math:: \bar x \pm t_{n-1,\,0.975} \; s / \sqrt n

    A bootstrap of two to five seeds would be too narrow by :math:`\sqrt{(n-1)/n}`, and would have
    normal tails instead of the heavy ones of t (for two seeds, 2 standard errors instead of 12.7).
    It assumes that seeds are normally distributed. None for a single seed, whose spread is unknown.

    Source:
        Student 1908, The probable error of a mean.
    """
    if len(values) < 2:
        return None
    mean = fsum(values) / len(values)
    reach = float(stdtrit(len(values) - 1, TAILS[1])) * _compute_standard_error(values)
    return Interval(mean - reach, mean + reach, "seeds")


def gap_interval(
    values: Sequence[float], *, printed: float, std: float | None = None, n: int | None = None
) -> Interval | None:
    r"""Compute Student's interval of the mean over our seeds minus a mean that a paper prints.

    .. math:: \bar x - m \pm t_{\nu,\,0.975} \sqrt{s^2 / n_x + s_m^2 / n_m}

    If the paper prints the standard deviation :math:`s_m` over :math:`n_m` seeds, the degrees of
    freedom are Welch's. Otherwise its mean is taken as exact, and the interval covers only our
    seeds: it is too narrow. None for a single seed of ours.
    """
    if len(values) < 2:
        return None
    ours, theirs = _compute_standard_error(values) ** 2, 0.0
    freedom = len(values) - 1.0
    if std and n is not None and n > 1:
        theirs = std**2 / n
        freedom = welch_freedom((ours, theirs), (freedom, n - 1))
    reach = float(stdtrit(freedom, TAILS[1])) * sqrt(ours + theirs)
    difference = fsum(values) / len(values) - printed
    return Interval(difference - reach, difference + reach, "seeds")


def _compute_standard_error(values: Sequence[float]) -> float:
    """Compute the standard error of the mean over two seeds or more."""
    n = len(values)
    mean = fsum(values) / n
    return sqrt(fsum((value - mean) ** 2 for value in values) / (n - 1)) / sqrt(n)


def pairs_interval(draws: NDArray[np.floating[Any]]) -> Interval:
    """Compute the 2.5 to 97.5 percentile interval of a score over resamples of its pairs.

    It covers the choice of the pairs in the test set, but not that of the seed, which in this field
    often matters more. `draws` has the shape (resamples,) and comes from `spearman_draws`.

    Source:
        Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 13.3.
    """
    low, high = np.quantile(draws, TAILS)
    return Interval(float(low), float(high), "pairs")


def seed_errors(scores: Floats, *, resamples: int, rng: np.random.Generator) -> Floats:
    r"""Draw errors of the means over n seeds: multivariate t with n - 1 degrees of freedom.

    .. math:: e = z \Big/ \sqrt{\chi^2_{n-1} / (n-1)}

    where :math:`z` are `normal_seed_errors`. The errors of a task are :math:`t_{n-1} s / \sqrt n`
    with its own :math:`s`, and so are those of the average over tasks, with the :math:`s` of the
    seeds' averages.

    Drawing two to five seeds with replacement instead would be too narrow, by
    :math:`\sqrt{(n-1)/n}` and by the tails of t. `scores` has the shape (seeds, tasks), with at
    least two seeds.

    Returns:
        Shape (tasks, resamples), centred on 0.
    """
    normal = normal_seed_errors(scores, resamples=resamples, rng=rng)
    return normal * draw_t_factors(len(scores) - 1, resamples=resamples, rng=rng)


def normal_seed_errors(scores: Floats, *, resamples: int, rng: np.random.Generator) -> Floats:
    r"""Draw normal errors of the means over n seeds, as if the observed spread were the true one.

    .. math:: z = D^\top u / \sqrt{n (n-1)}, \quad u \sim N(0, I_n)

    where :math:`D` are the scores minus their means, so that the errors of different tasks are
    correlated as the seeds' scores are. `scores` has the shape (seeds, tasks), with at least two
    seeds.

    Returns:
        Shape (tasks, resamples), centred on 0.
    """
    n = len(scores)
    normal = rng.standard_normal((resamples, n)) @ (scores - scores.mean(axis=0))
    errors: Floats = normal.T / np.sqrt(n * (n - 1))
    return errors


def draw_t_factors(freedom: float, *, resamples: int, rng: np.random.Generator) -> Floats:
    r"""Draw the factors :math:`\sqrt{\nu / \chi^2_\nu}` that turn normal errors into Student's."""
    return np.sqrt(freedom / rng.chisquare(freedom, resamples))


def welch_freedom(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    r"""Compute the degrees of freedom of a sum of estimated variances.

    .. math:: \nu = \Bigl(\sum_i v_i\Bigr)^2 \Big/ \sum_i \frac{v_i^2}{\nu_i}

    Args:
        variances: squared standard errors of the summed means, at least one above 0.
        freedoms: degrees of freedom of each estimate.

    Source:
        Welch 1947, The generalization of Student's problem when several variances are involved;
        Satterthwaite 1946, An approximate distribution of estimates of variance components.
    """
    squares = sum(v**2 / freedom for v, freedom in zip(variances, freedoms, strict=True))
    return sum(variances) ** 2 / squares


def row_draws(
    scores: Sequence[float], pairs: Floats | None, *, resamples: int, rng: np.random.Generator
) -> Floats | None:
    """Draw a row's mean over seeds with errors over its pairs and over its seeds.

    Each part is included if available: one seed has no spread over seeds, and without pairs the
    test set is taken as fixed. So on a mixed board, rows without pairs do not share the errors over
    pairs with the others, which makes rank intervals wider, not narrower.

    Args:
        scores: one score per seed, at least one.
        pairs: draws of the mean over the seeds in resamples of the pairs, shape (resamples,); None
            if no cosines are stored.
        resamples: the number of draws.
        rng: advances, so that each row gets its own errors over seeds.

    Returns:
        Shape (resamples,); None for one seed without pairs, whose spread is unknown.
    """
    if len(scores) < 2:
        return pairs
    values = np.asarray(scores, dtype=np.float64)
    centre = values.mean() if pairs is None else pairs
    draws: Floats = centre + seed_errors(values[:, None], resamples=resamples, rng=rng)[0]
    return draws


def rank_intervals(draws: NDArray[np.floating[Any]]) -> list[RankInterval]:
    """Compute the 2.5 to 97.5 percentile interval of each row's rank over joint draws.

    In a draw, a row's rank is 1 plus the number of rows that are strictly better; ties share a
    rank. Percentiles are ranks that occur (inverse of the distribution function), never between
    two. `draws` has the shape (rows, resamples); higher is better.
    """
    if not len(draws):
        return []
    ranks = np.empty(draws.shape, dtype=np.int64)
    for drawn, rank in zip(draws.T, ranks.T, strict=True):
        rank[:] = 1 + len(drawn) - np.searchsorted(np.sort(drawn), drawn, side="right")
    best, worst = np.quantile(ranks, TAILS, axis=1, method="inverted_cdf").tolist()
    return [RankInterval(*ends, among=len(draws)) for ends in zip(best, worst, strict=True)]


def joint_ranks(
    rows: Sequence[tuple[Sequence[float], Floats | None]], *, resamples: int, seed: int = 0
) -> list[RankInterval | None]:
    """Compute rank intervals of the rows of a board, from joint draws of all their scores.

    They are conservative: in simulations of 5 or 10 normal rows, half to four standard deviations
    of a seed apart, with 2 to 5 seeds each, the interval held the true rank at least 99 times in
    100. For rows that are truly equal, it always held one of the ranks that they share; it held the
    first of these, which equal scores get, 71 to 94 times in 100.

    Each row is given as for `row_draws`; the resamples of pairs are the same for every row.

    Returns:
        In the order of `rows`; None for one seed without pairs, which is not ranked and does not
        affect the ranks of others.
    """
    rng = np.random.default_rng(seed)
    draws = [row_draws(*row, resamples=resamples, rng=rng) for row in rows]
    known = [row for row in draws if row is not None]
    ranked = iter(rank_intervals(np.array(known)))
    return [None if row is None else next(ranked) for row in draws]
