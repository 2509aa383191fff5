"""Computes which ranks a row may have, as seeds and pairs leave its score open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_platform.leaderboard.statistics.intervals import TAILS, seed_errors
from cse_platform.leaderboard.statistics.resampling import Floats
from cse_platform.leaderboard.statistics.results import RankInterval


@dataclass(frozen=True, eq=False)
class Ranked:
    """The scores and draws that a row is ranked by."""

    values: Sequence[float]
    """One score a seed."""
    pairs: Floats | None = None
    """Draws of the mean over its seeds in resamples of the pairs, shape (resamples,); the resamples
    are the same for every row. None where no cosines are stored."""


def row_draws(row: Ranked, *, resamples: int, rng: np.random.Generator) -> Floats | None:
    """Draw where a row's mean over seeds may lie: errors over its pairs plus over its seeds.

    Each part is used where there is one: one seed has no known spread over seeds, and without pairs
    the test set is taken as it is. So in a mixed board the rows without pairs do not share the luck
    of the test set with the others, which makes ranks wider, not narrower.

    Each row needs its own part of `rng`, for its errors over seeds.

    Returns:
        Shape (resamples,); None for one seed without pairs, of which no spread is known.

    Raises:
        ValueError: if the row has no seed, or another number of draws over pairs.
    """
    if not len(row.values):
        raise ValueError("a row without a seed has no rank")
    if row.pairs is not None and np.shape(row.pairs) != (resamples,):
        raise ValueError(f"expected {resamples} draws over pairs, got {np.shape(row.pairs)}")
    values = np.asarray(row.values, dtype=np.float64)
    if len(values) < 2:
        return row.pairs
    centre = values.mean() if row.pairs is None else row.pairs
    draws: Floats = centre + seed_errors(values[:, None], resamples=resamples, rng=rng)[0]
    return draws


def rank_intervals(draws: NDArray[np.floating[Any]]) -> list[RankInterval]:
    """The 2.5 to 97.5 percentile of each row's ranks over joint draws.

    In a draw, a row's rank is 1 plus the number of rows that are strictly better: ties share a
    rank. Percentiles are ranks that occur (the inverse of the distribution function), never
    between two.

    Draws have the shape (rows, resamples); higher is better.
    """
    if not len(draws):
        return []
    ranks = np.empty(draws.shape, dtype=np.int64)
    for drawn, rank in zip(draws.T, ranks.T, strict=True):
        rank[:] = 1 + len(drawn) - np.searchsorted(np.sort(drawn), drawn, side="right")
    best, worst = np.quantile(ranks, TAILS, axis=1, method="inverted_cdf").tolist()
    return [RankInterval(*ends, among=len(draws)) for ends in zip(best, worst, strict=True)]


def joint_ranks(
    rows: Sequence[Ranked], *, resamples: int = 2000, seed: int = 0
) -> list[RankInterval | None]:
    """Compute rank intervals of the rows of a board, from joint draws of all their scores.

    They are wide rather than narrow: of 5 or 10 normal rows, half to four standard deviations of a
    seed apart, 2 to 5 seeds each, the true rank was inside for at least 99 in 100. Of rows that are
    truly equal, one of the ranks that they share always was; the first of these, which is what
    equal scores get, for 71 to 94 in 100.

    There are as many resamples as the rows have draws over pairs.

    Returns:
        In the order of `rows`; None for one seed without pairs: it is not ranked, and the others
        are ranked as if it were not there.

    Raises:
        ValueError: if a row has no seed, or another number of draws over pairs.
    """
    rng = np.random.default_rng(seed)
    draws = [row_draws(row, resamples=resamples, rng=rng) for row in rows]
    known = [row for row in draws if row is not None]
    ranked = iter(rank_intervals(np.array(known)))
    return [None if row is None else next(ranked) for row in draws]
