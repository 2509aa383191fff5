"""The interval that a running sweep, and a dry run, gives for the time left."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cse_platform.cli.time_left import GUESSED_SPREAD, time_left

seconds = st.floats(1, 1e6)
trials = st.floats(0.05, 1000)


def test_by_hand() -> None:
    """Four trials of 100 s, five more, two at once: 250 s, times or by e to 2 s sqrt(1/5 + 1/4)."""
    factor = math.exp(2 * (1 / 3 / 2) * math.sqrt(1 / 5 + 1 / 4))
    expected = pytest.approx((250 / factor, 250 * factor))
    assert time_left([100.0] * 4, trials=5, at_once=2) == expected


def test_a_projection_says_less_than_a_finished_trial() -> None:
    known = time_left([100.0], trials=5, at_once=1)
    projected = time_left([100.0], trials=5, at_once=1, finished=False)
    assert projected[0] < known[0] < known[1] < projected[1]


@given(seconds, trials, st.integers(1, 50))
def test_it_narrows_with_every_trial(each, left, count) -> None:
    low, high = time_left([each] * count, trials=left, at_once=1)
    narrower_low, narrower_high = time_left([each] * (count + 1), trials=left, at_once=1)
    assert low < narrower_low <= each * left * (1 + 1e-9)
    assert each * left * (1 - 1e-9) <= narrower_high < high


@given(st.lists(seconds, min_size=2, max_size=20), trials)
def test_trials_that_differ_widen_it(durations, left) -> None:
    mean = math.fsum(durations) / len(durations)
    low, high = time_left(durations, trials=left, at_once=1)
    even_low, even_high = time_left([mean] * len(durations), trials=left, at_once=1)
    assert low <= even_low * (1 + 1e-9) and high >= even_high * (1 - 1e-9)
    assert 0 < GUESSED_SPREAD < 1
