"""Intervals of a mean, a gap and a rank, by hand and by how often they hold the truth."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import ttest_ind

from cse_platform.leaderboard.statistics.intervals import (
    Interval,
    RankInterval,
    gap_interval,
    joint_ranks,
    percentile_interval,
    rank_intervals,
    row_draws,
    seed_errors,
    seed_interval,
)


def test_two_seeds_by_hand() -> None:
    # Mean 0.76, s = 0.02 / sqrt 2 = 0.014142, s / sqrt 2 = 0.01; t with 1 df at 97.5 % is 12.7062.
    interval = seed_interval([0.75, 0.77])
    assert interval == Interval(pytest.approx(0.632938), pytest.approx(0.887062), "seeds")
    for few in ([0.75], []):
        assert seed_interval(few) is None


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_the_truth_is_inside_in_95_of_100(n: int) -> None:
    runs = np.random.default_rng(n).normal(0.76, 0.01, size=(4000, n))
    intervals = [seed_interval(values) for values in runs]
    held = [i is not None and i.low <= 0.76 <= i.high for i in intervals]
    assert 0.938 <= np.mean(held) <= 0.962


def test_percentiles_of_draws_by_hand() -> None:
    # 0, 1, …, 200: the 2.5 percentile is 5.
    assert percentile_interval(np.arange(201.0)) == Interval(5, 195, "pairs")


def test_errors_of_seeds_have_students_quantiles_on_each_task_and_on_average() -> None:
    # The second task runs against the first, so that the average hardly varies.
    scores = np.array([[0.70, 0.82], [0.74, 0.80], [0.72, 0.79]])
    errors = seed_errors(scores, resamples=200_000, rng=np.random.default_rng(0))
    for values, drawn in [*zip(scores.T, errors, strict=True), (scores.mean(1), errors.mean(0))]:
        interval = seed_interval(values)
        assert interval is not None
        ends = (interval.low - values.mean(), interval.high - values.mean())
        assert np.quantile(drawn, (0.025, 0.975)) == pytest.approx(ends, rel=0.03)


def test_a_gap_to_an_exact_number_by_hand() -> None:
    # Mean 0.80, s / sqrt 2 = 0.01, t with 1 df 12.7062: 0.02 -+ 0.127062.
    gap = gap_interval([0.79, 0.81], printed=0.78)
    assert gap == Interval(pytest.approx(-0.107062), pytest.approx(0.147062), "seeds")


def test_a_gap_is_scipys() -> None:
    ours, theirs = [0.761, 0.755, 0.772], [0.748, 0.751, 0.757, 0.744, 0.75]
    printed, std = float(np.mean(theirs)), float(np.std(theirs, ddof=1))
    gap = gap_interval(ours, printed=printed, std=std, n=len(theirs))
    expected = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert gap is not None
    assert (gap.low, gap.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("theirs", [{}, {"std": 0.01}, {"n": 5}, {"std": 0.0, "n": 5}])
def test_a_deviation_counts_with_its_seeds_alone(theirs: dict[str, float]) -> None:
    values, exact = [0.79, 0.80], gap_interval([0.79, 0.80], printed=0.8)
    assert gap_interval(values, printed=0.8, **theirs) == exact  # type: ignore[arg-type]
    assert gap_interval([0.8], printed=0.8, **theirs) is None  # type: ignore[arg-type]


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


def test_the_same_pairs_tell_near_rows_apart() -> None:
    # Each moves by 0.01 over pairs, but the first is always 0.001 ahead.
    pairs = np.random.default_rng(0).normal(0.76, 0.01, 500)
    first, second = ([0.761], pairs + 0.001), ([0.76], pairs)
    apart = [RankInterval(1, 1, among=2), RankInterval(2, 2, among=2)]
    assert joint_ranks([first, second], resamples=500) == apart
    assert joint_ranks([second, second], resamples=500) == [RankInterval(1, 1, among=2)] * 2


def test_one_seed_without_pairs_is_not_ranked_nor_counted() -> None:
    rows = [([0.70, 0.701], None), ([0.99], None), ([0.30, 0.301], None)]
    assert joint_ranks(rows, resamples=2000) == [
        RankInterval(1, 1, among=2),
        None,
        RankInterval(2, 2, among=2),
    ]
    assert joint_ranks([([0.99], None)], resamples=9) == [None]
    assert joint_ranks([], resamples=9) == []


def test_draws_add_errors_over_seeds_to_those_over_pairs() -> None:
    rng = np.random.default_rng(0)
    values = [0.75, 0.77, 0.76]
    flat = row_draws(values, None, resamples=100, rng=np.random.default_rng(1))
    pairs = rng.normal(0.76, 0.01, 100)
    both = row_draws(values, pairs, resamples=100, rng=np.random.default_rng(1))
    assert flat is not None
    assert both == pytest.approx(flat - 0.76 + pairs)
    alone = row_draws([0.76], pairs, resamples=100, rng=np.random.default_rng(1))
    assert np.array_equal(pairs, alone)


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
        rows = [(list(rng.normal(mean, 1, n)), None) for mean in truth]
        ranks = joint_ranks(rows, resamples=400, seed=run)
        for rank, high, low in zip(ranks, best, worst, strict=True):
            assert rank is not None
            held.append(rank.best <= low and high <= rank.worst)
    assert np.mean(held) >= (0.97 if runs == 100 else 0.92)
