"""Statistics of a search: a race over seeds, the gain of more trials, and the winner's curse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import (
    bdtrc,
    gammaln,
    stdtr,  # Student's distribution function
    stdtrit,
)

from cse_platform.leaderboard.statistics.intervals import TAILS

BorderSide = Literal["low", "high"]
LEAST_SEARCHED = 10
"""A search with fewer trials with a value has no findings."""
_BEST = 5
"""Number of best trials that are examined."""
_LEVEL = 0.01
"""Probability below which the number of them at one side is not attributed to chance."""


def border_side(
    sides: Sequence[BorderSide | None], *, chances: dict[BorderSide, float]
) -> tuple[BorderSide, int] | None:
    """Find the side of a dimension at which the best trials lie, and how many of them.

    A side is returned if the best trial lies there and so many of the best five do that trials
    spread evenly over the dimension would in at most 1 of 100 searches. If a side is a tenth of the
    range, these are three of five; if it is the last of three choices, all five. By this rule, a
    list of two choices has no border.

    Args:
        sides: the side of each trial that has the dimension, best trial first.
        chances: the fraction of the dimension that counts as each side.

    Returns:
        None if there is no such side, or fewer than five trials have the dimension.
    """
    best = sides[:_BEST]
    if len(best) < _BEST or (side := best[0]) is None:
        return None
    count = best.count(side)
    by_chance = float(bdtrc(count - 1, _BEST, chances[side]))
    return (side, count) if by_chance <= _LEVEL else None


_RESAMPLES = 1000
_LEAST, _DRAWN = 100, 10_000_000
"""Minimum number of resamples, and maximum number of values in all of them together."""


@dataclass(frozen=True)
class ExpectedBest:
    """The expected best value of a number of trials."""

    trials: int
    mean: float
    low: float
    high: float
    """Upper end of a 95 % interval `low` to `high`, from a bootstrap over the trials."""


def expected_best(
    values: Sequence[float], sizes: Sequence[int], *, resamples: int = _RESAMPLES, seed: int = 0
) -> list[ExpectedBest]:
    r"""Compute the expected validation performance of n of N trials, for each n of `sizes`.

    .. math:: U(n) = \sum_{i=n}^{N} v_{(i)} \binom{i - 1}{n - 1} \Big/ \binom{N}{n}

    for the values in ascending order: the mean, over all subsets of n trials, of the best in a
    subset. For independent trials, as in random search, it is an unbiased estimate of the expected
    best of n. The estimate of Dodge et al. draws the n with replacement and so is too low, by a
    tenth of a standard deviation at half of 40 normal trials. A sampler that learns draws later
    trials from another distribution; for its trials, this is the best of n in random order.

    The interval is a percentile interval from a bootstrap of the trials with the estimate with
    replacement, shifted by the difference of the two estimates. Its coverage is in
    docs/statistics.md: less than 95 %, and the less the nearer n is to N.

    Returns:
        In the order of `sizes`.

    Source:
        Dodge et al. 2019, Show your work: improved reporting of experimental results, eq. 4;
        Tang et al. 2020, Showing your work doesn't always work, on its bias.
    """
    count = len(values)
    n = np.asarray(sizes, dtype=np.float64)
    observed = np.sort(np.asarray(values, dtype=np.float64))
    ranks = np.arange(count + 1, dtype=np.float64)[:, None]
    with_replacement = np.diff((ranks / count) ** n, axis=0)
    inside = _compute_log_binomial(ranks[1:] - 1, n - 1) - _compute_log_binomial(count, n)
    means = observed @ np.exp(inside)
    rng = np.random.default_rng(seed)
    resamples = min(resamples, max(_LEAST, _DRAWN // count))
    drawn = np.sort(observed[rng.integers(0, count, (resamples, count))], axis=1) @ with_replacement
    shift = means - observed @ with_replacement
    low, high = np.quantile(drawn, TAILS, axis=0) + shift
    rows = zip(sizes, means.tolist(), low.tolist(), high.tolist(), strict=True)
    return [ExpectedBest(*row) for row in rows]


def _compute_log_binomial(above: Any, below: Any) -> NDArray[np.float64]:
    """Compute the log of the binomial coefficient; minus infinity if `below` exceeds `above`."""
    fits = below <= above
    least = np.where(fits, above - below, 0)
    logs = gammaln(above + 1) - gammaln(below + 1) - gammaln(least + 1)
    result: NDArray[np.float64] = np.where(fits, logs, -np.inf)
    return result


@dataclass(frozen=True)
class WinnersCurse:
    """The best value of a search, and the mean of its configuration with other seeds."""

    best: float
    """The highest value of the search, biased upwards because it was selected."""
    fresh: float
    """The mean over fresh seeds, which were not used to select it."""
    seeds: int
    """The number of fresh seeds."""
    excess: float
    """`best` minus `fresh`: the part that was luck."""
    low: float | None
    high: float | None
    """Upper end of a 95 % interval of the excess, `low` to `high`; both are None if no
    configuration has two fresh seeds.
    """


def winners_curse(
    best: float, fresh: Sequence[float], others: Sequence[Sequence[float]] = ()
) -> WinnersCurse | None:
    r"""Estimate how far a search's best value is above its configuration's mean on fresh seeds.

    .. math:: b - \bar x \pm t_{\nu, 0.975} \, s / \sqrt m

    for m fresh seeds with mean :math:`\bar x`. s is pooled over all configurations that have
    several fresh seeds, with :math:`\nu` degrees of freedom, assuming equal variances. The best
    value itself is taken as a constant.

    Args:
        best: the highest value of the search.
        fresh: values of its configuration with seeds that were started after it was selected.
        others: the same for other configurations.

    Returns:
        None without a fresh seed.
    """
    if not fresh:
        return None
    groups = [group for group in (fresh, *others) if len(group) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    mean = fsum(fresh) / len(fresh)
    excess = best - mean
    if not freedom:
        return WinnersCurse(best, mean, len(fresh), excess, None, None)
    squares = fsum((value - fsum(g) / len(g)) ** 2 for g in groups for value in g)
    reach = float(stdtrit(freedom, TAILS[1])) * sqrt(squares / freedom / len(fresh))
    return WinnersCurse(best, mean, len(fresh), excess, excess - reach, excess + reach)


_FEWEST = 2
"""Seeds that each configuration has before any is dropped: one seed gives no spread."""


def find_survivors(
    values: Mapping[str, Mapping[int, float | None]], *, seeds: Sequence[int], alpha: float = 0.05
) -> list[str]:
    r"""Find the configurations that may still be the best after the rounds so far.

    In round i every racer gets the i-th seed. After each round from the second to the last but one,
    a racer is compared with the leader, the racer with the highest mean, over the m seeds that both
    have. It is dropped if

    .. math:: P\!\left(t_\nu \ge \frac{\bar d}{\max(s \sqrt{2 / m},\, s_d / \sqrt m)}\right)
              \le \frac{\alpha}{(n - 2)(k - 1)}

    for k configurations and n planned seeds. :math:`\bar d` is the mean of the paired differences
    and :math:`s_d` their standard deviation. :math:`s` and :math:`\nu` are the residual standard
    deviation and its degrees of freedom in an additive model of configuration and seed, over all
    configurations, because two or three differences alone estimate a spread too poorly. The larger
    of the two errors counts, because some configurations may vary more than others.

    The truly best configuration is dropped only if one of k - 1 others beats it after one of n - 2
    rounds. Each of these tests gets an equal part of alpha, so that the total error stays below
    alpha however the tests depend on each other. There is no test after the last round, as it would
    save nothing. Equal configurations all stay. Error rates and savings are in docs/statistics.md.

    The value from the search must not be among `values`: a configuration races because that value
    was among the highest of many, so it is biased upwards by an unknown amount.

    Args:
        values: by configuration and seed; seeds that have not ended yet are absent, and None is for
            a trial that ended without a value.
        seeds: the planned seeds, in the order of the rounds.
        alpha: upper bound on the probability of dropping the truly best configuration.

    Returns:
        In the order of `values`. Only whole rounds count, so that the result does not depend on
        which trial of a round ends first.

    Source:
        Maron and Moore 1994, Hoeffding races; with t tests, as Birattari et al. 2002, A racing
        algorithm for configuring metaheuristics.
    """
    racing, rounds_of = list(values), dict.fromkeys(values, 0)
    tests = (len(seeds) - _FEWEST) * (len(values) - 1)
    for rounds in range(_FEWEST, len(seeds)):
        so_far = seeds[:rounds]
        if len(racing) < 2 or not all(values[name].keys() >= set(so_far) for name in racing):
            break
        rounds_of.update(dict.fromkeys(racing, rounds))  # dropped ones keep their last round
        known = {
            name: {s: value for s in seeds[: rounds_of[name]] if (value := scores[s]) is not None}
            for name, scores in values.items()
        }
        means = {name: float(np.mean(list(known[name].values()))) for name in racing if known[name]}
        variance, freedom = _estimate_residual(known)
        if means and freedom:
            leader, level = known[max(means, key=means.__getitem__)], alpha / tests
            racing = [
                name
                for name in racing
                if _compute_p(leader, known[name], variance, freedom) > level
            ]
    return racing


def _compute_p(
    leader: Mapping[int, float], other: Mapping[int, float], variance: float, freedom: int
) -> float:
    """Compute the one-sided p value of the leader being no better.

    It is 1 if they share too few seeds, or if the leader's mean is not higher.
    """
    apart = np.array([leader[seed] - other[seed] for seed in leader.keys() & other.keys()])
    if len(apart) < _FEWEST or apart.mean() <= 0:
        return 1.0
    error = sqrt(max(2 * variance, float(apart.var(ddof=1))) / len(apart))
    return float(stdtr(freedom, -apart.mean() / error)) if error else 0.0


def _estimate_residual(known: Mapping[str, Mapping[int, float]]) -> tuple[float, int]:
    """Estimate the residual variance of configuration + seed effects, and degrees of freedom."""
    cells = [(name, seed) for name, values in known.items() for seed in values]
    names, seeds = (list(dict.fromkeys(side)) for side in zip(*cells, strict=True))
    design = np.zeros((len(cells), len(names) + len(seeds)))
    for row, (name, seed) in enumerate(cells):
        design[row, [names.index(name), len(names) + seeds.index(seed)]] = 1
    observed = np.array([known[name][seed] for name, seed in cells])
    fitted, _, rank, _ = np.linalg.lstsq(design, observed)
    freedom = len(cells) - int(rank)
    left = float(((observed - design @ fitted) ** 2).sum())
    return (left / freedom if freedom else 0.0), freedom
