"""What another trial is expected to add: by hand, and where a search that asks after each stops."""

from collections.abc import Callable
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cse_platform.leaderboard.statistics.searches import LEAST_TRIALS, expected_improvement

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def test_by_hand() -> None:
    """Above 0.5 there are 0.6 to 1.0: their mean excess is 0.3."""
    values = [0.0] * 14 + [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    scale = 0.3 * (1 + 1 / sqrt(5))
    assert expected_improvement(values) == pytest.approx(6 / 20 * scale * exp(-0.5 / scale))
    assert expected_improvement(values[1:]) is None
    assert expected_improvement([0.7] * LEAST_TRIALS) == 0


def test_the_later_half_counts() -> None:
    early, late = [0.1 * n for n in range(40)], [3.9 + 0.001 * n for n in range(40)]
    rising = expected_improvement([*early, *late])
    assert rising is not None and rising < 0.001
    falling = expected_improvement([*late, *early])
    assert falling is not None and falling > 10 * rising


@given(
    st.lists(st.floats(0, 1), min_size=LEAST_TRIALS, max_size=60),
    st.floats(0.01, 100),
    st.floats(-1, 1),
)
def test_it_has_the_unit_of_the_values(values: list[float], factor: float, start: float) -> None:
    rounded = [round(value, 6) for value in values]
    one = expected_improvement(rounded)
    other = expected_improvement([start + factor * value for value in rounded])
    assert one is not None and other is not None and one >= 0
    assert other == pytest.approx(factor * one, rel=1e-3, abs=1e-9)


DRAWS: dict[str, Draw] = {
    "normal": lambda rng, size: 2 * rng.standard_normal(size),
    "uniform": lambda rng, size: 10 * rng.random(size),
    "exponential": lambda rng, size: rng.exponential(1, size),
    "near a peak": lambda rng, size: -rng.chisquare(5, size),
    "half collapse": lambda rng, size: (
        rng.standard_normal(size) - 20 * rng.integers(0, 2, size).astype(float)
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_search_stops_neither_at_once_nor_never(name: str) -> None:
    """Where it stops, a trial adds no more than asked, on average over searches; and before, more.

    In points: half of the searches go on beyond the fewest trials, all stop within 400.
    """
    draw, asked, rng = DRAWS[name], 0.03, np.random.default_rng(0)
    many = draw(rng, 50_000)
    stops, left = [], []
    for _ in range(60):
        values = draw(rng, 400)
        stop = next(
            n
            for n in range(LEAST_TRIALS, 400)
            if (gain := expected_improvement(values[:n].tolist())) is not None and gain < asked
        )
        stops.append(stop)
        left.append(np.maximum(many - values[:stop].max(), 0).mean())
    assert np.mean(left) < 1.5 * asked
    assert np.median(stops) > 1.5 * LEAST_TRIALS
