"""The bootstrap of Spearman gives what scipy gives for the resampled pairs."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr

from cse_platform.leaderboard.statistics.intervals import BLOCK, spearman_draws


class Pairs(NamedTuple):
    """The arguments of `spearman_draws`."""

    task: str
    gold: NDArray[np.float64]
    cosines: NDArray[np.float32]
    groups: NDArray[np.intp] | None = None


def made_pairs(pairs: int, encoders: int, *, levels: int, seed: int = 0) -> Pairs:
    """Gold of a few levels, and cosines that follow it; the last encoder's are coarse, so tied."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, levels, pairs) / 2
    cosines = (gold / levels + rng.normal(scale=0.3, size=(encoders, pairs))).astype(np.float32)
    cosines[-1] = np.round(cosines[-1], 1)
    return Pairs("stsb", gold, cosines)


def plain_draws(task_pairs: Pairs, resamples: int, seed: int) -> NDArray[np.float64]:
    """The same resamples, each pair by pair through scipy; 0 where that gives nan."""
    by_gold = np.argsort(task_pairs.gold, kind="stable")
    rng = np.random.default_rng([seed, *task_pairs.task.encode()])
    group_of = task_pairs.groups
    labels = np.arange(len(by_gold)) if group_of is None else group_of[by_gold]
    groups = [by_gold[labels == label] for label in dict.fromkeys(labels.tolist())]
    draws: list[NDArray[np.intp]] = []
    while len(draws) < resamples:
        block = rng.integers(0, len(groups), size=(BLOCK, len(groups)))
        draws += [np.concatenate([groups[group] for group in drawn]) for drawn in block]
    with warnings.catch_warnings(action="ignore"):
        gold, some = task_pairs.gold, draws[:resamples]
        return np.nan_to_num(
            [[spearmanr(gold[at], row[at]).statistic for at in some] for row in task_pairs.cosines]
        )


@given(
    pairs=st.integers(1, 60),
    encoders=st.integers(1, 3),
    levels=st.integers(1, 30),
    groups=st.none() | st.integers(1, 40),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40, deadline=None)
def test_draws_are_scipys(pairs, encoders, levels, groups, seed) -> None:
    task_pairs = made_pairs(pairs, encoders, levels=levels, seed=seed)
    if groups is not None:
        labels = np.random.default_rng(seed).integers(0, groups, pairs)
        task_pairs = task_pairs._replace(groups=labels)
    draws = spearman_draws(*task_pairs, resamples=5, seed=seed)
    assert draws == pytest.approx(plain_draws(task_pairs, 5, seed), abs=1e-9)


def test_draws_are_scipys_at_a_real_size() -> None:
    task_pairs = made_pairs(4927, 2, levels=20)
    draws = spearman_draws(*task_pairs, resamples=70, seed=3)  # more than a block
    assert draws == pytest.approx(plain_draws(task_pairs, 70, 3), abs=1e-9)


@pytest.mark.parametrize(
    "groups", [pytest.param(None, marks=pytest.mark.slow), np.minimum(np.arange(2**15 + 5), 9)]
)
def test_draws_are_scipys_beyond_narrow_integers(groups: NDArray[np.intp] | None) -> None:
    # Of ten groups, the last has nearly all pairs: a resample can have several times as many.
    task_pairs = made_pairs(2**15 + 5, 2, levels=3)._replace(groups=groups)
    draws = spearman_draws(*task_pairs, resamples=4, seed=0)
    assert draws == pytest.approx(plain_draws(task_pairs, 4, 0), abs=1e-9)


def test_all_encoders_see_the_same_resamples_in_every_call() -> None:
    both = made_pairs(200, 2, levels=10)
    alone = Pairs(both.task, both.gold, both.cosines[1:])
    draws = spearman_draws(*both, resamples=100, seed=1)
    assert np.array_equal(spearman_draws(*alone, resamples=100, seed=1)[0], draws[1])
    assert np.array_equal(spearman_draws(*both, resamples=30, seed=1), draws[:, :30])
    sickr = both._replace(task="sickr")  # another task, or seed, draws others
    for other, seed in ((sickr, 1), (both, 0)):
        assert not np.array_equal(draws, spearman_draws(*other, resamples=100, seed=seed))


def test_nan_counts_as_0_as_in_the_score() -> None:
    gold = np.arange(4.0)
    with_nan = Pairs("stsb", gold, np.array([[-1, np.nan, 1, 2]], dtype=np.float32))
    with_zero = Pairs("stsb", gold, np.array([[-1, 0, 1, 2]], dtype=np.float32))
    draws = [spearman_draws(*pairs, resamples=20, seed=0) for pairs in (with_nan, with_zero)]
    assert np.array_equal(*draws)
