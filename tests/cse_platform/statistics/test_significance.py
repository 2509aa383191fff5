"""Williams's test and Holm's correction, by hand and by how often they cry wolf."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from cse_platform.leaderboard.statistics.compare import holm, williams


def test_williams_by_hand() -> None:
    # |R| = 1 - .25 - .16 - .01 + 2 * .5 * .4 * .1 = .62 and the mean is .45, so
    # T = .1 * sqrt(102 * 1.1 / (2 * 102 / 100 * .62 + .45**2 * .9**3))
    #   = .1 * sqrt(112.2 / (1.2648 + .1476225)) = .1 * sqrt(79.4380) = .891280.
    statistic, p = williams(0.5, 0.4, 0.1, 103)
    assert statistic == pytest.approx(0.891280, abs=1e-6)
    assert p == pytest.approx(2 * t.sf(0.891280, 100), abs=1e-6)
    assert williams(0.4, 0.5, 0.1, 103) == (-statistic, p)


@pytest.mark.parametrize("r", [-1.0, 0.0, 0.76, 1.0])
def test_williams_of_a_thing_with_itself(r: float) -> None:
    assert williams(r, r, 1.0, 100) == (0.0, 1.0)


def test_williams_of_mirror_images_is_the_test_of_no_correlation() -> None:
    # With r_ab = -1, r_b = -r_a: the limit is r_a sqrt((n - 3) / (1 - r_a^2)).
    assert williams(0.6, -0.6, -1.0, 28)[0] == pytest.approx(0.6 * 5 / 0.8, rel=1e-3)
    assert williams(1.0, -1.0, -1.0, 28) == (math.inf, 0.0)


def test_williams_refuses_impossible_correlations() -> None:
    with pytest.raises(ValueError, match=r"no three variables have correlations 0.9, 0.1 and 0.95"):
        williams(0.9, 0.1, 0.95, 100)
    with pytest.raises(ValueError, match="at least 4 pairs, got 3"):
        williams(0.5, 0.4, 0.1, 3)


def test_holm_by_hand() -> None:
    # Rising: .01 * 4, .02 * 3, .03 * 2 raised to the .06 before it, .6 * 1.
    assert holm([0.03, 0.6, 0.01, 0.02]) == pytest.approx([0.06, 0.6, 0.04, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]  # None was not tested
    assert holm([None]) == [None] and holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_lies_between_no_correction_and_bonferronis(
    ps: list[float],
) -> None:
    adjusted = holm(ps)
    ranked = sorted(zip(ps, adjusted, strict=True))
    assert [a for _, a in ranked] == sorted(adjusted)
    assert all(p <= a <= min(1, len(ps) * p) for p, a in ranked)
