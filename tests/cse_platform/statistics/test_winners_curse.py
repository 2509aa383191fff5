"""How far the best of many values is above what it stands for."""

import numpy as np
import pytest
from scipy import stats

from cse_platform.leaderboard.statistics.searches import winners_curse


def test_by_hand() -> None:
    found = winners_curse(0.9, [0.7, 0.8, 0.9], [[0.5, 0.7], [0.4]])
    assert found is not None
    assert (found.fresh, found.excess) == (pytest.approx(0.8), pytest.approx(0.1))
    # Squares 0.02 and 0.02 over 2 + 1 degrees of freedom; 0.4 says nothing of a spread.
    reach = stats.t.ppf(0.975, 3) * (0.04 / 3 / 3) ** 0.5
    assert found.low == pytest.approx(0.1 - reach)
    assert found.high == pytest.approx(0.1 + reach)


def test_what_is_not_known_is_not_said() -> None:
    assert winners_curse(0.9, []) is None
    alone = winners_curse(0.9, [0.8])
    assert alone is not None and (alone.low, alone.high) == (None, None)
    beside = winners_curse(0.9, [0.8], [[0.5, 0.6]])
    assert beside is not None and beside.low is not None


def test_of_equal_configurations_all_is_luck_and_the_interval_holds_it() -> None:
    """The best of 30 values of one truth, 0.5, with seeds that vary by 0.01."""
    rng, inside, excesses = np.random.default_rng(0), 0, []
    for _ in range(400):
        best = float((0.5 + 0.01 * rng.standard_normal(30)).max())
        found = winners_curse(best, (0.5 + 0.01 * rng.standard_normal(5)).tolist())
        assert found is not None and found.low is not None and found.high is not None
        excesses.append(found.excess)
        inside += found.low <= best - 0.5 <= found.high
    assert np.mean(excesses) == pytest.approx(0.01 * 2.04, rel=0.1)  # the mean maximum of 30
    assert inside / 400 == pytest.approx(0.95, abs=0.03)
