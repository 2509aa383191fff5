"""95 % intervals of means, of their differences and of ranks: Student's over seeds, and the paired
bootstrap over the examples of a task: pairs, texts or queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import fsum, hypot, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # Student's quantiles; scipy.stats takes a second to import

from cse_methods.data.shared_sentences import Groups
from cse_methods.tasks import Statistic
from cse_platform.leaderboard.statistics.resampling import Floats, Progress, draw_scores

RESAMPLES = {"board": 2_000, "comparison": 10_000}
"""The number of draws: for the ranks and intervals of a board, and for a comparison of rows."""
Spread = Literal["seeds", "examples"]
"""What an interval covers: seeds, by Student's t, or the examples of a task, by a bootstrap for a
single seed, which does not cover the spread over seeds.
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


TAILS = (0.025, 0.975)


def seed_interval(
    values: Sequence[float], *, printed: float = 0.0, std: float | None = None, n: int | None = None
) -> Interval | None:
    r"""Compute Student's interval of the mean over our seeds, minus a mean that a paper prints.

    .. math:: \bar x - m \pm t_{\nu,\,0.975} \sqrt{s^2 / n_x + s_m^2 / n_m}

    A bootstrap of two to five seeds would be too narrow by :math:`\sqrt{(n_x-1)/n_x}`, and would
    have normal tails instead of the heavy ones of t (for two seeds, 2 standard errors instead of
    12.7). It assumes that seeds are normally distributed. None for a single seed and for equal
    ones, whose spread is unknown.

    If the paper prints the standard deviation :math:`s_m` over :math:`n_m` seeds, the degrees of
    freedom are Welch's. Otherwise its mean is taken as exact, and the interval covers only our
    seeds: it is too narrow for the difference.

    Source:
        Student 1908, The probable error of a mean.
    """
    if len(values) < 2:
        return None
    freedom, theirs = len(values) - 1.0, 0.0
    ours = standard_deviation(values) / sqrt(len(values))
    if std and n is not None and n > 1:
        theirs = std / sqrt(n)
        freedom = welch_freedom((ours**2, theirs**2), (freedom, n - 1))
    if not (error := hypot(ours, theirs)):
        return None
    reach = float(stdtrit(freedom, TAILS[1])) * error
    mean = fsum(values) / len(values) - printed
    return Interval(mean - reach, mean + reach, "seeds")


def standard_deviation(values: Sequence[float]) -> float:
    """Compute the sample standard deviation (ddof 1) of two values or more."""
    mean = fsum(values) / len(values)
    return sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def percentile_interval(draws: NDArray[np.floating[Any]], over: Spread = "examples") -> Interval:
    """Compute the 2.5 to 97.5 percentile interval of draws, shape (resamples,).

    That of a score over resamples of its pairs covers the choice of the pairs in the test set, but
    not that of the seed, which in this field often matters more.

    Source:
        Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 13.3.
    """
    low, high = np.quantile(draws, TAILS)
    return Interval(float(low), float(high), over)


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


def welch_freedom(variances: Sequence[float | Floats], freedoms: Sequence[float]) -> Any:
    r"""Compute the degrees of freedom of a sum of estimated variances.

    .. math:: \nu = \Bigl(\sum_i v_i\Bigr)^2 \Big/ \sum_i \frac{v_i^2}{\nu_i}

    Args:
        variances: squared standard errors of the summed means, at least one above 0; or arrays of
            such, of which the result is one too.
        freedoms: degrees of freedom of each estimate.

    Source:
        Welch 1947, The generalization of Student's problem when several variances are involved;
        Satterthwaite 1946, An approximate distribution of estimates of variance components.
    """
    squares = sum(v**2 / freedom for v, freedom in zip(variances, freedoms, strict=True))
    return sum(variances) ** 2 / squares


def freedom_of_difference(
    variances: Sequence[float | Floats], freedoms: Sequence[float], share: float | Floats
) -> Any:
    """Compute the degrees of freedom with which `difference` counts its error.

    Args:
        variances: squared standard errors over seeds, of each side that has several.
        freedoms: degrees of freedom of each.
        share: the share of the error's variance that is over seeds; the rest counts as known.
    """
    freedom = np.minimum(welch_freedom(variances, freedoms), 2 * min(freedoms))
    return freedom / np.clip(share, 1e-4, 1.0) ** 2


def row_draws(
    scores: Sequence[float], pairs: Floats | None, *, resamples: int, rng: np.random.Generator
) -> Floats | None:
    r"""Draw a row's mean over seeds with errors over its pairs and over its n seeds.

    The errors over seeds are :math:`t_{n-1} s / \sqrt n`. Drawing two to five seeds with
    replacement instead would be too narrow, by :math:`\sqrt{(n-1)/n}` and by the tails of t.

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
    normal = normal_seed_errors(values[:, None], resamples=resamples, rng=rng)[0]
    draws: Floats = centre + normal * draw_t_factors(len(values) - 1, resamples=resamples, rng=rng)
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

    They are conservative. For rows that are truly equal, they cover some rank that these share, but
    not always the first of these, which equal scores get. docs/statistics.md has their coverage.

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


TrainingDesign = tuple[str, str, tuple[int, ...]]
"""What the random decisions of a contender's trainings follow from: method, backbone, and the seeds
in the order of the scores.
"""
FEWEST_PAIRED_SEEDS = 3
"""The fewest seeds that are compared seed by seed: two differences leave one degree of freedom, and
an interval of 12.7 standard errors.
"""


@dataclass(frozen=True, eq=False)
class Contender:
    """One side of a comparison: a configuration over its seeds."""

    name: str
    scores: Mapping[str, Sequence[float]]
    """The scores by task, one per seed; seeds have the same order in all tasks."""
    values: Mapping[str, NDArray[np.floating[Any]]] = field(default_factory=dict)
    """The values by example by task, shape (seeds, examples); tasks for which a seed has none are
    absent."""
    gold: Mapping[str, Floats] = field(default_factory=dict)
    """The gold scores or labels by task, shape (examples,); those of a mean are absent."""
    groups: Mapping[str, Groups] = field(default_factory=dict)
    """The groups of pairs that share a sentence by task, shape (pairs,), where they are known;
    equal for all contenders on the same pairs.
    """
    design: TrainingDesign | None = None
    """None if it is not known; the contender is then not compared seed by seed."""
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    """What makes a score of the values by task; Spearman's correlation if it is absent."""

    @property
    def seeds(self) -> int:
        return len(next(iter(self.scores.values())))

    def shares_seeds(self, other: "Contender") -> bool:
        """Whether the two are compared seed by seed: equal designs of at least three seeds."""
        known = self.design is not None and self.design == other.design
        return known and self.seeds >= FEWEST_PAIRED_SEEDS

    def statistic(self, task: str) -> Statistic:
        """Return what makes a score of the values of a task."""
        return self.statistics.get(task, "spearman")

    def shares_examples(self, other: "Contender", task: str) -> bool:
        """Whether both have values of the same examples, judged by their gold scores.

        Those of a mean have none, and are judged by their number: a caller compares no scores on
        other data.
        """
        if not self.values.keys() & other.values.keys() >= {task}:
            return False
        if self.statistic(task) != other.statistic(task):
            return False
        if self.statistic(task) == "mean":
            return len(self.values[task][0]) == len(other.values[task][0])
        return bool(np.array_equal(self.gold[task], other.gold[task]))


@dataclass(frozen=True, eq=False)
class Sampled:
    """A contender with bootstrap draws of its scores."""

    contender: Contender
    scores: Mapping[str, Floats]
    """The scores by task, shape (seeds,)."""
    errors: Mapping[str, Floats]
    """Normal draws of the errors of the means over seeds, by task, shape (resamples,); 0 for one
    seed.
    """
    over_examples: Mapping[str, Floats]
    """The means over seeds in resamples of the examples, by task, shape (resamples,)."""
    deviations: Mapping[str, Floats]
    """The scores of each seed in resamples of the examples minus their mean over resamples, by
    task, shape (seeds, resamples); tasks with values by example only.
    """
    seed: int

    def average(self, tasks: Sequence[str]) -> Floats:
        """Average each seed's scores over some tasks, shape (seeds,)."""
        scores: Floats = np.mean([self.scores[task] for task in tasks], axis=0)
        return scores


def sample(
    contenders: Sequence[Contender],
    tasks: Sequence[str],
    *,
    resamples: int,
    seed: int,
    progress: Progress | None = None,
) -> list[Sampled]:
    """Draw scores for each contender, which has a score for every task, of which there is one.

    Contenders on the same examples share the resamples of these.
    """
    scores_drawn = sum(each.seeds * sum(t in each.values for t in tasks) for each in contenders)
    total = resamples * scores_drawn
    step = None if progress is None else lambda done: progress(done, total)
    over_examples: list[dict[str, Floats]] = [{} for _ in contenders]
    deviations: list[dict[str, Floats]] = [{} for _ in contenders]
    for task in tasks:
        groups: list[list[int]] = []
        for index, contender in enumerate(contenders):
            if task in contender.values:
                alike = (g for g in groups if contenders[g[0]].shares_examples(contender, task))
                if (group := next(alike, None)) is None:
                    groups.append(group := [])
                group.append(index)
        for members in groups:
            values = np.concatenate([contenders[member].values[task] for member in members])
            first = contenders[members[0]]
            draws = draw_scores(
                task,
                first.statistic(task),
                values,
                first.gold.get(task),
                first.groups.get(task),
                resamples=resamples,
                seed=seed,
                progress=step,
            )
            ends = np.cumsum([contenders[member].seeds for member in members])[:-1]
            for member, own in zip(members, np.split(draws, ends), strict=True):
                over_examples[member][task] = own.mean(axis=0)
                deviations[member][task] = own - own.mean(axis=1, keepdims=True)
    sampled = []
    for contender, drawn, deviated in zip(contenders, over_examples, deviations, strict=True):
        by_seed = np.array([contender.scores[task] for task in tasks], dtype=np.float64).T
        errors = np.zeros((len(tasks), resamples))
        if contender.seeds > 1:
            # Seeded by the scores, so that a contender compared with itself always differs by 0.
            rng = np.random.default_rng([seed, int.from_bytes(sha256(by_seed.tobytes()).digest())])
            errors = normal_seed_errors(by_seed, resamples=resamples, rng=rng)
        scores = dict(zip(tasks, by_seed.T, strict=True))
        of_tasks = dict(zip(tasks, errors, strict=True))
        sampled.append(Sampled(contender, scores, of_tasks, drawn, deviated, seed))
    return sampled


_ROUNDING = 1e-18
"""The variance of means below which the scores of seeds are equal but for rounding."""


def difference(a: Sampled, b: Sampled, tasks: Sequence[str]) -> tuple[Floats, Spread] | None:
    r"""Draw the difference of A's mean over some tasks and B's, with errors over pairs and seeds.

    The draws are Student's around the difference, with a variance of

    .. math:: V = V_P + \max\Bigl(0, S - \sum_i p_i / n_i\Bigr), \quad S = \sum_i s_i^2 / n_i

    where :math:`V_P` is the variance of the difference in resamples of the pairs that both sides
    have in common, :math:`s_i^2` that of the scores of the :math:`n_i` seeds of a side, and
    :math:`p_i` the part of it that resampling the pairs explains and :math:`V_P` contains. Where
    seeds of both sides vary alike, :math:`V_P` contains less of it: no more than :math:`V_P` is
    subtracted.
    The degrees of freedom are Welch's for :math:`S`, at most twice those of the side with fewer
    seeds, times :math:`(V / S)^2`, as :math:`V_P` counts as known. Without that limit, the
    intervals of 2 seeds against 10 would cover the truth in 90 %.

    If both sides have the same method, backbone and seeds, at least three, the sum has one term:
    that of the differences by seed, with n - 1 degrees of freedom.

    Returns the draws, and what their errors are over. None if there is a task without shared pairs,
    and a side has only one seed, or no seed differs from another, because the spread is then
    unknown.
    """
    several = [side for side in (a, b) if side.contender.seeds > 1]
    paired = [task for task in tasks if a.contender.shares_examples(b.contender, task)]
    by_task = [
        a.over_examples[task] - b.over_examples[task]
        if task in paired
        else np.full(len(a.errors[task]), a.average([task]).mean() - b.average([task]).mean())
        for task in tasks
    ]
    draws: Floats = np.mean(by_task, axis=0)
    scores = [side.average(tasks) for side in several]
    deviations = [[side.deviations[task] for task in paired] for side in several]
    by_seed = a.contender.shares_seeds(b.contender)
    if by_seed:
        scores = [scores[0] - scores[1]]
        deviations = [[own - other for own, other in zip(*deviations, strict=True)]]
    observed = [float(own.var(ddof=1)) / len(own) for own in scores]
    spread = sum(observed)
    if len(paired) < len(tasks) and (len(several) < 2 or spread < _ROUNDING):
        return None
    explained = sum(
        float(of_task.var(axis=0, ddof=1).mean()) / len(tasks) ** 2 / len(of_task)
        for own in deviations
        for of_task in own
    )
    explained = min(explained, float(draws.var()))
    if spread > explained:
        share = spread / (float(draws.var()) + spread - explained)
        freedom = freedom_of_difference(observed, [len(own) - 1 for own in scores], share)
        rng = np.random.default_rng(a.seed)
        factors = draw_t_factors(freedom, resamples=len(draws), rng=rng)
        if by_seed:
            [errors] = normal_seed_errors(scores[0][:, None], resamples=len(draws), rng=rng)
        else:
            errors = np.mean([a.errors[task] - b.errors[task] for task in tasks], axis=0)
        centre = draws.mean()
        draws = centre + (draws - centre + sqrt(1 - explained / spread) * errors) * factors
    # With a single seed on either side, the draws do not cover the spread of its seeds.
    return draws, "seeds" if len(several) == 2 else "examples"
