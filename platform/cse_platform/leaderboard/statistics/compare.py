"""Tests whether A is better than B: effect, interval and p, by task and on average; and estimates
the noise of a printed difference, and the number of seeds that would decide it.

Errors are standard errors in the unit of the scores; noise is assumed to be normal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr, ndtri, stdtr, stdtrit

from cse_platform.leaderboard.statistics.intervals import (
    Contender,
    Interval,
    Sampled,
    Spread,
    difference,
    freedom_of_difference,
    percentile_interval,
    sample,
)
from cse_platform.leaderboard.statistics.resampling import Floats, Progress


@dataclass(frozen=True)
class TaskComparison:
    """The comparison of A with B on one task, or on the average over them."""

    task: str
    mean_a: float
    mean_b: float
    n_a: int
    """The number of seeds of A."""
    n_b: int
    effect: float
    """Mean of A minus mean of B."""
    interval: Interval | None
    """The interval of the effect, by the paired bootstrap; None without pairs for a single seed or
    equal ones.
    """
    p: float | None
    """Two-sided p value of no difference, by the same bootstrap."""
    p_holm: float | None = None
    """The p after Holm's correction over the tasks, without the average."""
    williams_t: float | None = None
    """Williams's T2 for two correlations with the same gold; None without pairs, for the average,
    and for scores that are no correlations.
    """
    williams_p: float | None = None
    """Two-sided, with n - 3 degrees of freedom for n pairs."""
    williams_p_holm: float | None = None
    examples: int | None = None
    """The number of pairs, texts or queries that both have values of."""


@dataclass(frozen=True)
class ComparedRow:
    """A row that is compared, and what tells it from others."""

    name: str
    reference: str
    """METHOD@CONFIGURATION."""
    marks: tuple[str, ...]
    """Marks for what a reader must know about its training; of test sets, about the compared."""
    backbone: str
    dev_search: str
    """The dev set that its search climbed."""
    dev_source: str
    seeds: tuple[int, ...]
    """The seeds that are compared on at least one task."""
    unscored_seeds: dict[int, tuple[str, ...]]
    """The seeds that count but lack a score, and on which tasks; empty if on all of them."""
    chosen_by: dict[int, float]
    """The dev scores, by seed, by which searches chose its configuration among others."""


@dataclass(frozen=True)
class SharedConfiguration:
    """Two rows that are one configuration."""

    a: str
    b: str
    trials: int
    """The number of trials that count in both."""


@dataclass(frozen=True)
class ReadingDifference:
    """How two encoders read their texts differently, such as in length or prompt."""

    a: str
    b: str
    values: dict[str, tuple[Any, Any]]
    """What A has and what B has, by the names of the settings that differ."""


@dataclass(frozen=True)
class AllRows:
    """What a comparison on clean rows would be on all rows, the papers' protocol."""

    column: str
    effect: float
    """Mean of A minus mean of B on all rows."""
    change: float | None
    """How much clean rows add to it, over the seeds that have both; None without such seeds."""


@dataclass(frozen=True)
class Limits:
    """What limits the conclusions from a comparison."""

    single: tuple[str, ...] = ()
    """Names with a single seed, whose spread over seeds no interval and no p covers."""
    unpaired: tuple[str, ...] = ()
    """Tasks without values of the same examples: compared over seeds only."""
    pairs_seeds: tuple[str, ...] = ()
    """Tasks on which configurations of one method on one backbone are compared seed by seed."""
    ungrouped: tuple[str, ...] = ()
    """Tasks for which it is unknown which pairs share a sentence; their pairs are resampled one by
    one.
    """
    chosen: tuple[str, ...] = ()
    """Names of rows that a search chose by a score that counts here."""
    opened: tuple[str, ...] = ()
    """Names of rows that were chosen after such test sets had been opened."""
    one_configuration: tuple[SharedConfiguration, ...] = ()
    other_code: tuple[str, ...] = ()
    """Names of rows whose code is not that of the newest trials of their method, backbone and dev
    sets.
    """
    mixes_code: bool = False
    """Whether both rows are of one method and ran different code of it."""
    corpora: dict[str, str] = field(default_factory=dict)
    """The training corpora by name, if they differ."""
    fixed: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The settings that differ and that not all of their searches varied, by row."""
    readings: tuple[ReadingDifference, ...] = ()
    without_pairs: dict[str, str] = field(default_factory=dict)
    """Why rows are compared on dev over their seeds only, by name."""
    left_out: tuple[str, ...] = ()
    """Names of rows that are scored on other tasks or data."""
    all_rows: AllRows | None = None


@dataclass(frozen=True)
class Comparison:
    """The comparison of A with B, by task and on average."""

    a: str
    b: str
    tasks: tuple[TaskComparison, ...]
    average: TaskComparison | None
    """The comparison on the average over `tasks`, if they are the whole family."""
    limits: Limits = Limits()
    rows: tuple[ComparedRow, ...] = ()
    """A and B."""


@dataclass(frozen=True)
class Matrix:
    """The comparison of all rows on the average over the tasks; rows are A, columns B."""

    names: tuple[str, ...]
    effects: tuple[tuple[float, ...], ...]
    """Mean of the row minus mean of the column."""
    p: tuple[tuple[float | None, ...], ...]
    """Two-sided p value of no difference; None on the diagonal, and without pairs for a single
    seed or equal ones.
    """
    p_holm: tuple[tuple[float | None, ...], ...]
    """The p after Holm's correction over all unordered pairs."""
    tasks: tuple[str, ...]
    """The tasks that the means are over."""
    limits: Limits = Limits()
    rows: tuple[ComparedRow, ...] = ()
    """The rows in the order of `names`."""
    average: str | None = None
    """The name of the mean over the tasks, if it has one."""


_NEARLY_ONE = 1 - 1e-12


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> tuple[float, float]:
    r"""Test with Williams's T2 whether two predictors correlate equally with the same gold.

    .. math:: T = (r_a - r_b) \sqrt{\frac{(n-1)(1+r_{ab})}
              {2 \frac{n-1}{n-3} |R| + \bar r^2 (1-r_{ab})^3}}, \quad
              |R| = 1 - r_a^2 - r_b^2 - r_{ab}^2 + 2 r_a r_b r_{ab}

    with :math:`\bar r = (r_a + r_b) / 2`. It was derived for Pearson's r of normal variables, where
    it keeps its level. Spearman's correlations vary more when they are high, so that more of the
    comparisons of equal encoders are significant; docs/statistics.md has the rates. It covers the
    sampling of pairs, not of seeds.

    Args:
        r_a: correlation of A with gold.
        r_b: of B with gold.
        r_ab: of A with B. If they agree perfectly (1), their correlations with gold are equal and
            t is 0.
        n: number of pairs, at least four.

    Returns:
        t, positive if A is better, and the two-sided p with n - 3 degrees of freedom.

    Source:
        Williams 1959; Steiger 1980, Tests for comparing elements of a correlation matrix, eq. 7,
        who recommends it for two correlations that share a variable.
    """
    # At r_ab = 1 or -1 the formula is 0 / 0; just inside, it takes its limit.
    between = min(max(r_ab, -_NEARLY_ONE), _NEARLY_ONE)
    apart = r_a - r_b
    # |R|, written to avoid cancellation when A and B nearly agree.
    determinant = (1 - between) * (1 + between - 2 * r_a * r_b) - apart**2
    mean = (r_a + r_b) / 2
    unsure = 2 * (n - 1) / (n - 3) * max(determinant, 0.0) + mean**2 * (1 - between) ** 3
    if unsure == 0:
        return math.copysign(math.inf, apart), 0.0
    statistic = apart * math.sqrt((n - 1) * (1 + between) / unsure)
    return statistic, float(2 * stdtr(n - 3, -abs(statistic)))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Correct p values by Holm's step-down method.

    It bounds the probability of any false positive by the level, however the tests depend on each
    other. The smallest of m p values is multiplied by m, the next by m - 1 and so on; results never
    decrease in that order and never exceed 1. None means that there was no test; it is kept and not
    counted. The input order is kept.

    Source:
        Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted: list[float | None] = [None] * len(ps)
    rising = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    highest = 0.0
    for before, (p, index) in enumerate(rising):
        highest = max(highest, min(1.0, (len(rising) - before) * p))
        adjusted[index] = highest
    return adjusted


def compare(
    a: Contender,
    b: Contender,
    *,
    tasks: Sequence[str],
    average: str | None,
    resamples: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Compare A with B by a joint bootstrap over the pairs that they share and over their seeds.

    docs/statistics.md describes the draws, the intervals and the p values, and their error rates
    for equal methods. `average` is the id of the average over `tasks`, or None. Equal seeds give
    equal results.
    """
    left, right = sample((a, b), tasks, resamples=resamples, seed=seed, progress=progress)
    rows = [_compare_task(task, left, right, [task]) for task in tasks]
    for index, row in enumerate(rows):
        if not a.shares_examples(b, row.task):
            continue
        rows[index] = replace(row, examples=(pairs := a.values[row.task].shape[1]))
        if pairs >= 4 and a.statistic(row.task) == "spearman":
            gold = _compute_unit_ranks(a.gold[row.task][None])
            ours, theirs = (_compute_unit_ranks(side.values[row.task]) for side in (a, b))
            # The mean correlation is the product of the means: over seeds, or over pairs of seeds.
            correlations = float(ours @ gold), float(theirs @ gold), float(ours @ theirs)
            statistic, p = williams(*correlations, n=pairs)
            rows[index] = replace(rows[index], williams_t=statistic, williams_p=p)
    whole = None if average is None else _compare_task(average, left, right, tasks)
    limits = _find_limits((a, b), tasks, average)
    return Comparison(a.name, b.name, _correct_tasks(rows), whole, limits)


def join_comparisons(parts: Sequence[Comparison], tasks: Sequence[str]) -> Comparison:
    """Join comparisons of the same two rows over different seeds, each on some of the tasks.

    The p values are corrected over all tasks, which the result has in the order given. Of a task
    that several have, the first counts: the one for the average has them all.
    """
    first, rows = parts[0], {row.task: row for part in reversed(parts) for row in part.tasks}

    def join(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(task for part in parts for task in getattr(part.limits, name)))

    limits = Limits(
        single=tuple(
            name
            for name in first.limits.single
            if all(name in part.limits.single for part in parts)
        ),
        unpaired=join("unpaired"),
        pairs_seeds=join("pairs_seeds"),
        ungrouped=join("ungrouped"),
    )
    average = next((part.average for part in parts if part.average is not None), None)
    return Comparison(first.a, first.b, _correct_tasks([rows[t] for t in tasks]), average, limits)


def _correct_tasks(rows: Sequence[TaskComparison]) -> tuple[TaskComparison, ...]:
    """Correct the p values of tasks that are compared together."""
    corrected = holm([row.p for row in rows]), holm([row.williams_p for row in rows])
    return tuple(
        replace(row, p_holm=p, williams_p_holm=williams_p)
        for row, p, williams_p in zip(rows, *corrected, strict=True)
    )


def compare_all(
    contenders: Sequence[Contender],
    *,
    tasks: Sequence[str],
    average: str | None = None,
    resamples: int,
    progress: Progress | None = None,
) -> Matrix:
    """Compare every contender with every other on the average over the tasks, as in `compare`.

    With m pairs of contenders, the lowest possible corrected p is 2 m / (resamples + 1).
    """
    sampled = sample(contenders, tasks, resamples=resamples, seed=0, progress=progress)
    means = [float(draws.average(tasks).mean()) for draws in sampled]
    pairs = list(combinations(range(len(sampled)), 2))
    ps = [_compute_p(difference(sampled[i], sampled[j], tasks)) for i, j in pairs]
    return Matrix(
        tuple(contender.name for contender in contenders),
        tuple(tuple(mine - other for other in means) for mine in means),
        _build_square(len(sampled), pairs, ps),
        _build_square(len(sampled), pairs, holm(ps)),
        tuple(tasks),
        _find_limits(contenders, tasks, average),
        average=average,
    )


def _compute_p(drawn: tuple[Floats, Spread] | None) -> float | None:
    """Compute the two-sided p from the draws; None without draws."""
    if drawn is None:
        return None
    draws, _ = drawn
    lesser = int(min(np.count_nonzero(draws <= 0), np.count_nonzero(draws >= 0)))
    return min(1.0, 2 * (lesser + 1) / (len(draws) + 1))


def _compare_task(name: str, a: Sampled, b: Sampled, tasks: Sequence[str]) -> TaskComparison:
    """Compare A with B on the mean over some tasks, before correction."""
    drawn = difference(a, b, tasks)
    interval = None if drawn is None else percentile_interval(*drawn)
    mean_a, mean_b = (float(side.average(tasks).mean()) for side in (a, b))
    return TaskComparison(
        name,
        mean_a,
        mean_b,
        a.contender.seeds,
        b.contender.seeds,
        mean_a - mean_b,
        interval,
        _compute_p(drawn),
    )


def _compute_unit_ranks(values: NDArray[np.floating[Any]]) -> Floats:
    """Compute the ranks of each row as a unit vector, averaged over rows.

    The product of two such vectors is Spearman's correlation, averaged over the rows of both.
    """
    from scipy.stats import rankdata  # scipy.stats takes a second to import

    ranks = rankdata(np.nan_to_num(values, nan=0.0), axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    length = np.linalg.norm(ranks, axis=1, keepdims=True)
    unit: Floats = np.divide(ranks, length, out=ranks, where=length > 0).mean(axis=0)
    return unit


def _build_square(
    size: int, pairs: Sequence[tuple[int, int]], values: Sequence[float | None]
) -> tuple[tuple[float | None, ...], ...]:
    """Build a symmetric matrix with None on the diagonal."""
    known = dict(zip(pairs, values, strict=True))
    return tuple(tuple(known.get((min(i, j), max(i, j))) for j in range(size)) for i in range(size))


def _find_limits(
    contenders: Sequence[Contender], tasks: Sequence[str], average: str | None
) -> Limits:
    """Find the limits that lie in the numbers of seeds and pairs."""
    pairs = list(combinations(contenders, 2))
    by_seed = any(a.shares_seeds(b) for a, b in pairs)
    return Limits(
        single=tuple(contender.name for contender in contenders if contender.seeds == 1),
        unpaired=tuple(t for t in tasks if not all(a.shares_examples(b, t) for a, b in pairs)),
        pairs_seeds=(*tasks, *([average] if average else [])) if by_seed else (),
        ungrouped=tuple(
            t
            for t in tasks
            if any(
                t in each.gold and t not in each.groups and each.statistic(t) == "spearman"
                for each in contenders
            )
        ),
    )


LEVEL, POWER = 0.05, 0.8
REACH = float(ndtri(1 - LEVEL / 2))
"""Number of standard errors that a difference must exceed to be significant, two-sided."""
_REACH_WITH_POWER = REACH + float(ndtri(POWER))
_QUANTILES = 50
"""Values of each side's variance that a power is the mean over."""


def correlation_difference_error(r_a: float, r_b: float, r_ab: float, n: int) -> float:
    r"""Compute the standard error of the difference of two Spearman correlations with the same
    gold.

    .. math:: \frac{1}{n} \Bigl[ c_a (1-r_a^2)^2 + c_b (1-r_b^2)^2
              - 2 \sqrt{c_a c_b} \, \psi \Bigr], \quad
              \psi = r_{ab} (1 - r_a^2 - r_b^2) - \tfrac12 r_a r_b (1 - r_a^2 - r_b^2 - r_{ab}^2)

    is its square; :math:`c = 1 + r^2 / 2` accounts for ranks varying more than values.

    Args:
        r_a: correlation of A with gold, in [-1, 1].
        r_b: of B with gold.
        r_ab: of A with B.
        n: number of independent pairs.

    Source:
        Pearson and Filon 1898, as in Steiger 1980, eq. 3; Bonett and Wright 2000, Sample size
        requirements for estimating Pearson, Kendall and Spearman correlations, for c.
    """
    c_a, c_b = 1 + r_a**2 / 2, 1 + r_b**2 / 2
    left = 1 - r_a**2 - r_b**2
    shared = r_ab * left - r_a * r_b * (left - r_ab**2) / 2
    own = c_a * (1 - r_a**2) ** 2 + c_b * (1 - r_b**2) ** 2
    return math.sqrt(max(0.0, own - 2 * math.sqrt(c_a * c_b) * shared) / n)


def accuracy_difference_error(p_a: float, p_b: float, agreement: float, n: int) -> float:
    r"""Compute the standard error of the difference of two accuracies on the same n samples.

    .. math:: \sqrt{(v_a + v_b - 2 \phi \sqrt{v_a v_b}) / n}, \quad v = p (1 - p)

    Args:
        p_a: accuracy of A, in [0, 1].
        p_b: accuracy of B.
        agreement: phi, the correlation between the correctness of A and that of B.
        n: number of samples.
    """
    v_a, v_b = p_a * (1 - p_a), p_b * (1 - p_b)
    return math.sqrt((v_a + v_b - 2 * agreement * math.sqrt(v_a * v_b)) / n)


def expected_maximum(n: int) -> float:
    """Compute the expected maximum of n independent standard normal values."""
    x = np.linspace(-12, 12, 4801)
    density = n * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * ndtr(x) ** (n - 1)
    return float(np.trapezoid(x * density, x))


def seeds_to_decide(
    difference: float, *, seeds_error: float, pairs_error: float = 0.0, share: float = 0.5
) -> int | None:
    """Compute the seeds per side with which `compare` finds a difference significant, at the 5 %
    level, with 80 % power.

    Args:
        difference: the true difference.
        seeds_error: standard error of the difference with one seed per side.
        pairs_error: standard error that remains with any number of seeds; 0 on these test sets.
        share: the share of the square of `seeds_error` that is one side's; the other has the rest.

    Returns:
        At least 2; None if no number of seeds is enough.
    """
    variance = (difference / _REACH_WITH_POWER) ** 2 - pairs_error**2
    if variance <= 0 or seeds_error == 0:
        return 2 if variance > 0 else None
    sides = seeds_error**2 * share, seeds_error**2 * (1 - share)
    # Normal quantiles give too few, because the spread over few seeds is hardly known.
    least = max(2, math.ceil(seeds_error**2 / variance))
    return next(
        n for n in count(least) if _compute_power(difference, sides, pairs_error**2, n) >= POWER
    )


def _compute_power(
    difference: float, sides: tuple[float, float], known: float, seeds: int
) -> float:
    """Compute the probability that a true difference comes out significant.

    It is the mean over what the two sides' variances may come out as in so many seeds: their
    estimates are independent multiples of chi-squared, of which the quantiles are taken.

    Args:
        difference: the true difference.
        sides: the variance over seeds of each side.
        known: the variance over pairs.
        seeds: per side, at least two.
    """
    freedom, quantiles = seeds - 1, (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    estimates = 2 * gammaincinv(freedom / 2, quantiles) / freedom
    a, b = (side / seeds * estimates for side in sides)
    observed = a[:, None], b[None, :]
    variance = known + sum(observed)
    freedoms = freedom_of_difference(observed, (freedom, freedom), sum(observed) / variance)
    reach = stdtrit(freedoms, 1 - LEVEL / 2) * np.sqrt(variance)
    error = math.sqrt(known + sum(sides) / seeds)
    return float(np.mean(ndtr((difference - reach) / error) + ndtr((-difference - reach) / error)))
