"""The noise of printed differences, and the seeds that would decide them."""

import math

import pytest

from cse_platform.leaderboard.statistics.compare import (
    accuracy_difference_error,
    correlation_difference_error,
    expected_maximum,
    seeds_to_decide,
)


def test_error_of_two_correlations_by_hand() -> None:
    # 1 - .64 - .64 = -.28; psi = .9 x -.28 - .32 x (-.28 - .81) = .0968; c = 1.32;
    # (2 x 1.32 x .36^2 - 2 x 1.32 x .0968) / 100 = .00086592.
    assert correlation_difference_error(0.8, 0.8, 0.9, 100) == pytest.approx(math.sqrt(0.00086592))
    assert correlation_difference_error(0, 0, 0, 50) == pytest.approx(math.sqrt(2 / 50))
    assert correlation_difference_error(0.7, 0.7, 1, 50) == pytest.approx(0, abs=1e-8)


def test_error_of_two_accuracies_by_hand() -> None:
    assert accuracy_difference_error(0.9, 0.9, 0, 200) == pytest.approx(math.sqrt(0.18 / 200))
    assert accuracy_difference_error(0.9, 0.9, 0.5, 200) == pytest.approx(math.sqrt(0.09 / 200))
    # Of 100, A alone is right on 10 and B on none: .1 - .1^2 = .09 is the variance of the gap.
    phi = (0.8 - 0.9 * 0.8) / math.sqrt(0.9 * 0.1 * 0.8 * 0.2)
    assert accuracy_difference_error(0.9, 0.8, phi, 100) == pytest.approx(math.sqrt(0.0009))


@pytest.mark.parametrize("n, expected", [(1, 0), (2, 1), (3, 1.5)])
def test_the_highest_of_few_values_by_hand(n: int, expected: float) -> None:
    assert expected_maximum(n) == pytest.approx(expected / math.sqrt(math.pi), abs=1e-9)


def test_seeds_by_hand() -> None:
    # (1.960 + 0.842)^2 = 7.849; with pairs 1 / (1 / 7.849 - .09) = 26.7.
    assert seeds_to_decide(1, seeds_error=1) == 8
    assert seeds_to_decide(-1, seeds_error=1, pairs_error=0.3) == 27
    assert seeds_to_decide(1, seeds_error=0.1) == 2
    assert seeds_to_decide(1, seeds_error=0.1, pairs_error=0.36) is None
    assert seeds_to_decide(0, seeds_error=1) is None
