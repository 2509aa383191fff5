import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from cse_platform.leaderboard.statistics.compare import (
    accuracy_difference_error,
    correlation_difference_error,
    expected_maximum,
    seeds_to_decide,
)
from cse_platform.leaderboard.statistics.intervals import (
    Interval,
    RankInterval,
    draw_t_factors,
    joint_ranks,
    normal_seed_errors,
    percentile_interval,
    rank_intervals,
    row_draws,
    seed_interval,
)


def test_intervals_by_hand() -> None:
    # Mean 0.76, s = 0.02 / sqrt 2 = 0.014142, s / sqrt 2 = 0.01; t with 1 df at 97.5 % is 12.7062.
    interval = seed_interval([0.75, 0.77])
    assert interval == Interval(pytest.approx(0.632938), pytest.approx(0.887062), "seeds")
    for few in ([0.75], []):
        assert seed_interval(few) is None
    values = [0.75, 0.77, 0.72, 0.78, 0.76]
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    assert seed_interval(values) == Interval(pytest.approx(low), pytest.approx(high), "seeds")
    # Of the draws 0, 1, …, 200 the 2.5 percentile is 5.
    assert percentile_interval(np.arange(201.0)) == Interval(5, 195, "examples")


def test_errors_of_seeds_have_students_quantiles_on_each_task_and_on_average() -> None:
    # The second task runs against the first, so that the average hardly varies.
    scores = np.array([[0.70, 0.82], [0.74, 0.80], [0.72, 0.79]])
    draws = {"resamples": 200_000, "rng": np.random.default_rng(0)}
    errors = normal_seed_errors(scores, **draws) * draw_t_factors(2, **draws)
    for values, drawn in [*zip(scores.T, errors, strict=True), (scores.mean(1), errors.mean(0))]:
        interval = seed_interval(values)
        ends = (interval.low - values.mean(), interval.high - values.mean())
        assert np.quantile(drawn, (0.025, 0.975)) == pytest.approx(ends, rel=0.03)


def test_a_gap_by_hand_and_by_scipy() -> None:
    # Mean 0.80, s / sqrt 2 = 0.01, t with 1 df 12.7062: 0.02 -+ 0.127062.
    gap = seed_interval([0.79, 0.81], printed=0.78)
    assert gap == Interval(pytest.approx(-0.107062), pytest.approx(0.147062), "seeds")
    # A deviation counts with its seeds alone.
    values, exact = [0.79, 0.80], seed_interval([0.79, 0.80], printed=0.8)
    for theirs in ({}, {"std": 0.01}, {"n": 5}, {"std": 0.0, "n": 5}):
        assert seed_interval(values, printed=0.8, **theirs) == exact  # type: ignore[arg-type]
        assert seed_interval([0.8], printed=0.8, **theirs) is None  # type: ignore[arg-type]
    ours, theirs = [0.761, 0.755, 0.772], [0.748, 0.751, 0.757, 0.744, 0.75]
    printed, std = float(np.mean(theirs)), float(np.std(theirs, ddof=1))
    gap = seed_interval(ours, printed=printed, std=std, n=len(theirs))
    expected = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((expected.low, expected.high))


def test_ranks_by_hand() -> None:
    # The first is best in 38 of 40 draws, and last in 2; the others tie for second, or first.
    draws = np.full((3, 40), [[0.8], [0.7], [0.7]])
    draws[0, :2] = 0.6
    first, *others = rank_intervals(draws)
    assert first == RankInterval(best=1, worst=3, among=3)
    assert others == [RankInterval(best=1, worst=2, among=3)] * 2
    # The 2.5 percentile of 40 is the lowest, the 97.5 percentile the 39th.
    draws = np.full((2, 40), [[0.8], [0.7]])
    draws[0, 0] = 0.6
    assert rank_intervals(draws) == [RankInterval(1, 1, among=2), RankInterval(1, 2, among=2)]
    # Each moves by 0.01 over pairs, but the first is always 0.001 ahead.
    pairs = np.random.default_rng(0).normal(0.76, 0.01, 500)
    first, second = ([0.761], pairs + 0.001), ([0.76], pairs)
    apart = [RankInterval(1, 1, among=2), RankInterval(2, 2, among=2)]
    assert joint_ranks([first, second], resamples=500) == apart
    assert joint_ranks([second, second], resamples=500) == [RankInterval(1, 1, among=2)] * 2
    rows = [([0.70, 0.701], None), ([0.99], None), ([0.30, 0.301], None)]
    expected = [RankInterval(1, 1, among=2), None, RankInterval(2, 2, among=2)]
    assert joint_ranks(rows, resamples=2000) == expected
    assert joint_ranks([([0.99], None)], resamples=9) == [None]
    assert joint_ranks([], resamples=9) == []


def test_draws_add_errors_over_seeds_to_those_over_pairs() -> None:
    rng = np.random.default_rng(0)
    values = [0.75, 0.77, 0.76]
    flat = row_draws(values, None, resamples=100, rng=np.random.default_rng(1))
    pairs = rng.normal(0.76, 0.01, 100)
    both = row_draws(values, pairs, resamples=100, rng=np.random.default_rng(1))
    assert both == pytest.approx(flat - 0.76 + pairs)
    alone = row_draws([0.76], pairs, resamples=100, rng=np.random.default_rng(1))
    assert np.array_equal(pairs, alone)
    drawn, interval = row_draws(values, None, resamples=200_000, rng=rng), seed_interval(values)
    ends = (interval.low, interval.high)
    assert np.quantile(drawn, (0.025, 0.975)) == pytest.approx(ends, abs=0.0005)


def test_error_of_two_correlations_and_of_two_accuracies_by_hand() -> None:
    # 1 - .64 - .64 = -.28; psi = .9 x -.28 - .32 x (-.28 - .81) = .0968; c = 1.32;
    # (2 x 1.32 x .36^2 - 2 x 1.32 x .0968) / 100 = .00086592.
    assert correlation_difference_error(0.8, 0.8, 0.9, 100) == pytest.approx(math.sqrt(0.00086592))
    assert correlation_difference_error(0, 0, 0, 50) == pytest.approx(math.sqrt(2 / 50))
    assert correlation_difference_error(0.7, 0.7, 1, 50) == pytest.approx(0, abs=1e-8)
    assert accuracy_difference_error(0.9, 0.9, 0, 200) == pytest.approx(math.sqrt(0.18 / 200))
    assert accuracy_difference_error(0.9, 0.9, 0.5, 200) == pytest.approx(math.sqrt(0.09 / 200))
    # Of 100, A alone is right on 10 and B on none: .1 - .1^2 = .09 is the variance of the gap.
    phi = (0.8 - 0.9 * 0.8) / math.sqrt(0.9 * 0.1 * 0.8 * 0.2)
    assert accuracy_difference_error(0.9, 0.8, phi, 100) == pytest.approx(math.sqrt(0.0009))


@pytest.mark.parametrize("n, expected", [(1, 0), (2, 1), (3, 1.5)])
def test_the_highest_of_few_values_by_hand(n: int, expected: float) -> None:
    assert expected_maximum(n) == pytest.approx(expected / math.sqrt(math.pi), abs=1e-9)


DECIDING = {1.0: 17, 1.5: 9, 2.0: 6, 3.0: 4, 4.0: 3}
"""The seeds per side that decide a difference, given in standard deviations of a seed."""


def test_seeds_to_decide_by_hand() -> None:
    wrong = {}
    for difference, seeds_error, pairs_error, share, expected in (
        # In standard deviations of a seed. With normal quantiles: 16, 7, 4, 2 and 2.
        *((gap, math.sqrt(2), 0, 0.5, n) for gap, n in DECIDING.items()),
        # All spread on one side is a t test with n - 1 degrees of freedom, for which a noncentral t
        # gives 78.1 % at 17, 79.5 % at 9, 78.9 % at 6, 79.8 % at 4 and 70.5 % at 3.
        *((gap, math.sqrt(2), 0, 1, n) for gap, n in ((1, 18), (1.5, 10), (2, 7), (3, 5), (4, 4))),
        # Variances over pairs count as known: (1.960 + 0.842)^2 = 7.849, and 1 / (1 / 7.849 - .09)
        # is 26.7 if seeds did so too; 1 / (1 / 7.849 - .36^2) is below 0.
        (-1, 1, 0.3, 0.5, 28),
        (1, 0.1, 0.36, 0.5, None),
        (1, 0.1, 0, 0.5, 2),
        (1, 0, 0.3, 0.5, 2),
        (1, 0, 0.36, 0.5, None),
        (0, 1, 0, 0.5, None),
        (1e-9, 1, 0, 0.5, 7848879734349087744),
    ):
        errors = {"seeds_error": seeds_error, "pairs_error": pairs_error, "share": share}
        found = seeds_to_decide(difference, **errors)
        if found != expected:
            wrong[difference, seeds_error, pairs_error, share] = found, expected
    assert wrong == {}
