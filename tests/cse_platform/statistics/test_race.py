"""Which configurations race on: by hand, by property, and how often the rule errs."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from cse_platform.leaderboard.statistics.searches import RACE_ALPHA, find_survivors

SEEDS = (0, 1, 2, 3, 4)


def by_seed(*values: float | None) -> dict[int, float | None]:
    return dict(zip(SEEDS, values, strict=False))


def test_dropped_by_hand() -> None:
    """Two configurations: the paired t test of their differences 0.09, 0.10, 0.11."""
    values = {"a": by_seed(0.80, 0.82, 0.81), "b": by_seed(0.71, 0.72, 0.70)}
    p = stats.ttest_1samp([0.09, 0.10, 0.11], 0, alternative="greater").pvalue
    assert p == pytest.approx(0.00166, abs=1e-5)
    # One other configuration, and tests after rounds 2, 3 and 4: each at a third of alpha.
    assert find_survivors(values, seeds=SEEDS, alpha=3 * p * 1.01) == ["a"]
    # After the second round 0.09 and 0.10 have p = 0.0168.
    assert find_survivors(values, seeds=SEEDS, alpha=3 * p * 0.99) == ["a", "b"]


def test_all_configurations_say_how_far_seeds_vary() -> None:
    """Alone, b - a = 0.01, 0.03 leaves it open; six further ones say that a seed varies less."""
    pair = {"a": by_seed(0.80, 0.80), "b": by_seed(0.76, 0.78)}
    assert find_survivors(pair, seeds=SEEDS) == ["a", "b"]
    noise = np.random.default_rng(0).normal(0, 0.001, (6, 2))
    calm = {str(n): by_seed(*(0.8 + row)) for n, row in enumerate(noise)}
    narrow = {"a": by_seed(0.80, 0.80), "b": by_seed(0.769, 0.771)}
    assert "b" not in find_survivors(narrow | calm, seeds=SEEDS)
    # Of its own, b may vary more than the others do.
    assert "b" in find_survivors(pair | calm, seeds=SEEDS)


def test_nothing_is_dropped_before_two_whole_rounds_and_a_value() -> None:
    far = {"a": by_seed(0.9, 0.9), "b": by_seed(0.1)}
    assert find_survivors(far, seeds=SEEDS) == ["a", "b"]
    assert find_survivors({"a": by_seed(0.9, 0.9)}, seeds=SEEDS) == ["a"]
    assert find_survivors({}, seeds=SEEDS) == []
    lost = {"a": by_seed(None, None), "b": by_seed(0.2, 0.3), "c": by_seed(0.3, None)}
    assert find_survivors(lost, seeds=SEEDS) == ["a", "b", "c"]


def test_after_the_last_round_nothing_is_tested() -> None:
    values = {"a": by_seed(0.9, 0.9001), "b": by_seed(0.1, 0.1)}
    assert find_survivors(values, seeds=(0, 1)) == ["a", "b"]
    assert find_survivors(values, seeds=(0, 1, 2)) == ["a"]


fractions = st.floats(0, 1, allow_subnormal=False)


@settings(max_examples=40)
@given(st.lists(st.lists(fractions, min_size=5, max_size=5), min_size=1, max_size=4), st.data())
def test_whoever_is_out_stays_out_whatever_ends_later(
    rows: list[list[float]], data: st.DataObject
) -> None:
    """Trials that were started before their configuration was dropped may end at any time."""
    whole = {str(n): by_seed(*row) for n, row in enumerate(rows)}
    before: set[str] = set(whole)
    ended: dict[str, dict[int, float | None]] = {name: {} for name in whole}
    order = data.draw(st.permutations([(name, seed) for name in whole for seed in SEEDS]))
    for name, seed in order:
        ended[name][seed] = whole[name][seed]
        racing = set(find_survivors(ended, seeds=SEEDS))
        assert racing <= before
        before = racing
    assert before == set(find_survivors(whole, seeds=SEEDS))


@given(st.integers(2, 5), st.floats(0, 1))
def test_equal_ones_all_race(number: int, value: float) -> None:
    values = {str(n): by_seed(*[value + seed / 100 for seed in SEEDS]) for n in range(number)}
    assert find_survivors(values, seeds=SEEDS) == list(values)


def share_dropped(
    noise: NDArray[np.float64], means: NDArray[np.float64], seeds: int
) -> tuple[float, float]:
    """How often the first, truly best configuration is dropped, and the share of trials saved."""
    errors, saved = 0, 0.0
    planned = range(seeds)
    for drawn in noise + means[:, None]:
        values: dict[str, dict[int, float | None]] = {str(n): {} for n in range(len(means))}
        for seed in planned:
            for name in find_survivors(values, seeds=planned):
                values[name][seed] = float(drawn[int(name), seed])
        errors += "0" not in find_survivors(values, seeds=planned)
        saved += 1 - sum(map(len, values.values())) / drawn.size
    return errors / len(noise), saved / len(noise)


WHOLE = list(product((3, 8), (0.0, 0.5, 2.0), ("normal", "heavy tails", "collapses", "shared")))


@pytest.mark.parametrize(
    ("races", "cases"),
    [
        pytest.param(50, [(3, 0.5, "collapses"), (8, 0.0, "heavy tails")], id="few"),
        pytest.param(200, WHOLE, id="all", marks=pytest.mark.slow),
    ],
)
def test_the_best_is_dropped_no_more_often_than_alpha(
    races: int, cases: list[tuple[int, float, str]]
) -> None:
    """By three standard errors of the simulation at most. Gaps are in deviations of a seed."""
    sure = RACE_ALPHA + 3 * (RACE_ALPHA * (1 - RACE_ALPHA) / races) ** 0.5
    wrong = {}
    for configurations, gap, errors in cases:
        rng = np.random.default_rng(configurations)
        size = (races, configurations, 5)
        noise = rng.standard_normal(size)
        if errors == "heavy tails":
            noise = rng.standard_t(3, size) / np.sqrt(3)
        elif errors == "collapses":
            noise -= 8 * (rng.random(size) < 0.1)
        elif errors == "shared":
            noise += 2 * rng.standard_normal((races, 1, 5))
        share, _ = share_dropped(noise, -gap * np.arange(configurations), 5)
        wrong[configurations, gap, errors] = share
    assert {case: share for case, share in wrong.items() if share > sure} == {}


def test_seeds_are_saved_where_configurations_are_apart() -> None:
    for configurations, seeds, saved in ((3, 5, 0.25), (10, 5, 0.5), (5, 8, 0.5)):
        noise = np.random.default_rng(0).standard_normal((20, configurations, seeds))
        wrong, share = share_dropped(noise, -4.0 * np.arange(configurations), seeds)
        assert wrong == 0
        assert share >= saved, (configurations, seeds)
