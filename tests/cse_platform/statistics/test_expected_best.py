"""The expected best of n trials: by hand, by property, and how often its interval is right."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_platform.leaderboard.statistics.searches import expected_best

fractions = st.floats(0, 1)


def test_by_hand() -> None:
    """Of three values there are three pairs: two of these hold the best."""
    found = expected_best([0.9, 0.0, 0.6], [1, 2, 3])
    assert [one.mean for one in found] == pytest.approx([0.5, (0.9 + 0.9 + 0.6) / 3, 0.9])
    assert [one.trials for one in found] == [1, 2, 3]


@settings(max_examples=40)
@given(st.lists(fractions, min_size=1, max_size=6), st.data())
def test_it_is_the_mean_over_all_sets(values: list[float], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(values)))
    (found,) = expected_best(values, [size], resamples=10)
    assert found.low <= found.high + 1e-12
    assert found.mean == pytest.approx(np.mean([max(some) for some in combinations(values, size)]))


def test_no_more_than_there_are() -> None:
    for size in (0, 3):
        with pytest.raises(ValueError, match="from 1 to 2"):
            expected_best([0.5, 0.6], [size])


@pytest.mark.parametrize(("trials", "of", "least"), [(5, 40, 0.78), (10, 100, 0.83)])
def test_the_interval_holds_the_truth(trials: int, of: int, least: float) -> None:
    """For n well below N; the less the nearer n is to N."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((100_000, trials)).max(axis=1).mean()
    inside = 0
    for _ in range(100):
        (found,) = expected_best(rng.standard_normal(of).tolist(), [trials], resamples=300)
        inside += found.low <= truth <= found.high
    assert inside / 100 >= least - 0.06
