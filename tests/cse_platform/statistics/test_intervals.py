"""Intervals of a mean, by hand and by how often they hold the truth."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from cse_platform.leaderboard.statistics.intervals import (
    gap_interval,
    lower_bound,
    pairs_interval,
    seed_errors,
    seed_interval,
)
from cse_platform.leaderboard.statistics.results import Interval


def test_two_seeds_by_hand() -> None:
    # Mean 0.76, s = 0.02 / sqrt 2 = 0.014142, s / sqrt 2 = 0.01; t with 1 df at 97.5 % is 12.7062.
    interval = seed_interval([0.75, 0.77])
    assert interval == Interval(pytest.approx(0.632938), pytest.approx(0.887062), "seeds")
    # At 95 % it is 6.3138.
    assert lower_bound([0.75, 0.77]) == pytest.approx(0.76 - 0.063138, abs=1e-6)
    for few in ([0.75], []):
        assert seed_interval(few) is lower_bound(few) is None


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_the_truth_is_inside_and_above_the_lower_bound_in_95_of_100(n: int) -> None:
    runs = np.random.default_rng(n).normal(0.76, 0.01, size=(4000, n))
    intervals = [seed_interval(values) for values in runs]
    held = [i is not None and i.low <= 0.76 <= i.high for i in intervals]
    bounds = [lower_bound(values) for values in runs]
    above = [bound is not None and bound <= 0.76 for bound in bounds]
    assert 0.938 <= np.mean(held) <= 0.962
    assert 0.938 <= np.mean(above) <= 0.962


def test_percentiles_of_draws_by_hand() -> None:
    # 0, 1, …, 200: the 2.5 percentile is 5.
    assert pairs_interval(np.arange(201.0)) == Interval(5, 195, "pairs")


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
