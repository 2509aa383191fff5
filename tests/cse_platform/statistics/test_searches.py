from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cse_platform.leaderboard.statistics.searches import (
    BorderSide,
    border_side,
    expected_best,
    find_survivors,
    winners_curse,
)

TENTH: dict[BorderSide, float] = {"low": 0.1, "high": 0.1}
THIRD: dict[BorderSide, float] = {"low": 1 / 3, "high": 1 / 3}


def test_borders_and_the_winners_curse_by_hand() -> None:
    for sides, chances, found in (
        (["high", None, "high", "high", None], TENTH, ("high", 3)),
        (["low"] * 5, TENTH, ("low", 5)),
        (["high", None, "high", None, None], TENTH, None),  # two may be chance
        ([None, "high", "high", "high", "high"], TENTH, None),  # the best is inside
        (["high", "high", "high", "high"], TENTH, None),  # fewer than five
        (["high", "high", "high", "high", None], THIRD, None),
        (["high"] * 5, THIRD, ("high", 5)),
        (["high"] * 4 + [None], {"high": 0.25}, None),  # by chance in 1.6 of 100 searches
        (["high"] * 5, {"low": 0.5, "high": 0.5}, None),
    ):
        assert border_side(sides, chances=chances) == found
        assert border_side([*sides[:5], "low", "low"], chances=chances) == found or len(sides) < 5
    found = winners_curse(0.9, [0.7, 0.8, 0.9], [[0.5, 0.7], [0.4]])
    assert (found.fresh, found.excess) == (pytest.approx(0.8), pytest.approx(0.1))
    # Squares 0.02 and 0.02 over 2 + 1 degrees of freedom; 0.4 says nothing of a spread.
    reach = stats.t.ppf(0.975, 3) * (0.04 / 3 / 3) ** 0.5
    assert found.low == pytest.approx(0.1 - reach)
    assert found.high == pytest.approx(0.1 + reach)


fractions = st.floats(0, 1, allow_subnormal=False)


@settings(max_examples=40)
@given(st.lists(fractions, min_size=1, max_size=6), st.data())
def test_the_best_of_n_is_the_mean_over_all_sets(values: list[float], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(values)))
    (found,) = expected_best(values, [size], resamples=10)
    assert found.low <= found.high + 1e-12
    assert found.trials == size
    assert found.mean == pytest.approx(np.mean([max(some) for some in combinations(values, size)]))


@pytest.mark.parametrize(("trials", "of", "least"), [(5, 40, 0.78), (10, 100, 0.83)])
def test_the_interval_of_the_best_of_n_holds_the_truth(trials: int, of: int, least: float) -> None:
    """For n well below N; the less the nearer n is to N."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((100_000, trials)).max(axis=1).mean()
    inside = 0
    for _ in range(100):
        (found,) = expected_best(rng.standard_normal(of).tolist(), [trials], resamples=300)
        inside += found.low <= truth <= found.high
    assert inside / 100 >= least - 0.06


SEEDS = (0, 1, 2, 3, 4)


def by_seed(*values: float | None) -> dict[int, float | None]:
    return dict(zip(SEEDS, values, strict=False))


def test_who_is_dropped_from_a_race_by_hand() -> None:
    """Two configurations: the paired t test of their differences 0.09, 0.10, 0.11."""
    values = {"a": by_seed(0.80, 0.82, 0.81), "b": by_seed(0.71, 0.72, 0.70)}
    p = stats.ttest_1samp([0.09, 0.10, 0.11], 0, alternative="greater").pvalue
    assert p == pytest.approx(0.00166, abs=1e-5)
    # One other configuration, and tests after rounds 2, 3 and 4: each at a third of alpha.
    assert find_survivors(values, seeds=SEEDS, alpha=3 * p * 1.01) == ["a"]
    # After the second round 0.09 and 0.10 have p = 0.0168.
    assert find_survivors(values, seeds=SEEDS, alpha=3 * p * 0.99) == ["a", "b"]
    # Alone, b - a = 0.01, 0.03 leaves it open; six further ones say that a seed varies less.
    pair = {"a": by_seed(0.80, 0.80), "b": by_seed(0.76, 0.78)}
    assert find_survivors(pair, seeds=SEEDS) == ["a", "b"]
    noise = np.random.default_rng(0).normal(0, 0.001, (6, 2))
    calm = {str(n): by_seed(*(0.8 + row)) for n, row in enumerate(noise)}
    narrow = {"a": by_seed(0.80, 0.80), "b": by_seed(0.769, 0.771)}
    assert "b" not in find_survivors(narrow | calm, seeds=SEEDS)
    rough = {str(n): by_seed(*(0.5 + 30 * row)) for n, row in enumerate(noise)}
    assert "b" in find_survivors(narrow | rough, seeds=SEEDS)  # two differences agree by chance
    # Of its own, b may vary more than the others do.
    assert "b" in find_survivors(pair | calm, seeds=SEEDS)


def test_nothing_is_dropped_before_two_whole_rounds_nor_after_the_last() -> None:
    far = {"a": by_seed(0.9, 0.9), "b": by_seed(0.1)}
    assert find_survivors(far, seeds=SEEDS) == ["a", "b"]
    assert find_survivors({"a": by_seed(0.9, 0.9)}, seeds=SEEDS) == ["a"]
    assert find_survivors({}, seeds=SEEDS) == []
    lost = {"a": by_seed(None, None), "b": by_seed(0.2, 0.3), "c": by_seed(0.3, None)}
    assert find_survivors(lost, seeds=SEEDS) == ["a", "b", "c"]
    values = {"a": by_seed(0.9, 0.9001), "b": by_seed(0.1, 0.1)}
    assert find_survivors(values, seeds=(0, 1)) == ["a", "b"]
    assert find_survivors(values, seeds=(0, 1, 2)) == ["a"]


@settings(max_examples=40)
@given(st.lists(st.lists(fractions, min_size=5, max_size=5), min_size=1, max_size=4), st.data())
def test_whoever_is_out_stays_out_whatever_ends_later(rows, data) -> None:
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
