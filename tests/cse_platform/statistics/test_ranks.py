"""Which ranks a row may have: by hand, and by how often the true rank is among them."""

from itertools import product

import numpy as np
import pytest

from cse_platform.leaderboard.statistics.ranks import (
    Ranked,
    joint_ranks,
    rank_intervals,
    row_draws,
)
from cse_platform.leaderboard.statistics.results import RankInterval


def test_ranks_by_hand() -> None:
    # The first is best in 38 of 40 draws, and last in 2; the others tie for second, or first.
    draws = np.full((3, 40), [[0.8], [0.7], [0.7]])
    draws[0, :2] = 0.6
    first, *others = rank_intervals(draws)
    assert first == RankInterval(best=1, worst=3, among=3)
    assert others == [RankInterval(best=1, worst=2, among=3)] * 2


def test_one_draw_in_forty_is_left_out_above_only() -> None:
    # The 2.5 percentile of 40 is the lowest, the 97.5 percentile the 39th.
    draws = np.full((2, 40), [[0.8], [0.7]])
    draws[0, 0] = 0.6
    assert rank_intervals(draws) == [RankInterval(1, 1, among=2), RankInterval(1, 2, among=2)]


def test_equal_rows_share_the_first_rank() -> None:
    pairs = np.random.default_rng(0).normal(0.76, 0.01, 500)
    rows = [Ranked([0.76], pairs), Ranked([0.76], pairs)]
    assert joint_ranks(rows, resamples=500) == [RankInterval(1, 1, among=2)] * 2


def test_the_same_pairs_tell_near_rows_apart() -> None:
    # Each moves by 0.01 over pairs, but the first is always 0.001 ahead.
    pairs = np.random.default_rng(0).normal(0.76, 0.01, 500)
    rows = [Ranked([0.761], pairs + 0.001), Ranked([0.76], pairs)]
    assert joint_ranks(rows, resamples=500) == [RankInterval(1, 1, 2), RankInterval(2, 2, 2)]


def test_one_seed_without_pairs_is_not_ranked_nor_counted() -> None:
    rows = [Ranked([0.70, 0.701]), Ranked([0.99]), Ranked([0.30, 0.301])]
    assert joint_ranks(rows) == [RankInterval(1, 1, among=2), None, RankInterval(2, 2, among=2)]
    assert joint_ranks([Ranked([0.99])]) == [None]
    assert joint_ranks([]) == []


def test_draws_add_errors_over_seeds_to_those_over_pairs() -> None:
    rng = np.random.default_rng(0)
    values = [0.75, 0.77, 0.76]
    flat = row_draws(Ranked(values), resamples=100, rng=np.random.default_rng(1))
    pairs = rng.normal(0.76, 0.01, 100)
    both = row_draws(Ranked(values, pairs), resamples=100, rng=np.random.default_rng(1))
    assert flat is not None
    assert both == pytest.approx(flat - 0.76 + pairs)
    alone = row_draws(Ranked([0.76], pairs), resamples=100, rng=np.random.default_rng(1))
    assert np.array_equal(pairs, alone)


def test_what_cannot_be_ranked_is_refused() -> None:
    with pytest.raises(ValueError, match="without a seed"):
        joint_ranks([Ranked([])])
    with pytest.raises(ValueError, match=r"expected 2000 draws over pairs, got \(5,\)"):
        joint_ranks([Ranked([0.7], np.zeros(5))])


@pytest.mark.parametrize(
    ("runs", "n", "gap"),
    [
        (30, 3, 0.5),
        *(pytest.param(100, *case, marks=pytest.mark.slow)
          for case in product((2, 3, 5), (0.0, 0.5, 2.0))),
    ],
)  # fmt: skip
def test_the_true_rank_is_inside(runs: int, n: int, gap: float) -> None:
    # Five rows, `gap` standard deviations of a seed apart. The true rank of equal rows is any of
    # those that they share.
    truth = -gap * np.arange(5)
    best = 1 + (truth > truth[:, None]).sum(axis=1)
    worst = (truth >= truth[:, None]).sum(axis=1)
    rng, held = np.random.default_rng(n), []
    for run in range(runs):
        rows = [Ranked(list(rng.normal(mean, 1, n))) for mean in truth]
        ranks = joint_ranks(rows, resamples=400, seed=run)
        for rank, high, low in zip(ranks, best, worst, strict=True):
            assert rank is not None
            held.append(rank.best <= low and high <= rank.worst)
    assert np.mean(held) >= (0.97 if runs == 100 else 0.92)
