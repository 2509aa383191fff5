"""How often the interval of a difference between equal methods holds 0, which is the truth."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata

from cse_platform.leaderboard.statistics.compare import compare
from cse_platform.leaderboard.statistics.intervals import Contender

PAIRS, SHARING = 200, 4


def trained(rng: np.random.Generator, n: int, *, quality: float, sharing: int) -> list[Contender]:
    """Two equal methods, each trained with n seeds and scored on the same new pairs.

    Seeds differ by `quality` in how well they follow gold, and in their noise on each pair;
    `sharing` pairs have a sentence in common, and half of all noise with it.
    """
    groups = (np.arange(PAIRS) // sharing).astype(np.int32)

    def noise(rows: int) -> np.ndarray:
        by_pair, by_group = rng.normal(size=(rows, PAIRS)), rng.normal(size=(rows, PAIRS))
        return by_pair if sharing == 1 else (by_pair + by_group[:, groups]) / np.sqrt(2)

    gold, both = rng.normal(size=PAIRS), noise(1)
    ranks = rankdata(gold)
    contenders = []
    for name in ("a", "b"):
        scale = 0.7 + quality * rng.normal(size=(n, 1))
        cosines = gold + scale * (both + 0.3 * noise(1) + 0.2 * noise(n))
        scores = [float(np.corrcoef(ranks, row)[0, 1]) for row in rankdata(cosines, axis=1)]
        known = {} if sharing == 1 else {"stsb": groups}
        contenders.append(
            Contender(name, {"stsb": scores}, {"stsb": cosines}, {"stsb": gold}, known)
        )
    return contenders


def coverage(
    a_seeds: int, b_seeds: int, *, runs: int, sharing: int | None = None, quality: float = 0
) -> float:
    """The share of intervals that hold 0; over seeds alone if `sharing` is None."""
    rng, held = np.random.default_rng(a_seeds), 0
    for run in range(runs):
        if sharing is None:
            a, b = (
                Contender(name, {"stsb": rng.normal(0.76, 0.01, n).tolist()})
                for name, n in (("a", a_seeds), ("b", b_seeds))
            )
        else:
            a, b = trained(rng, a_seeds, quality=quality, sharing=sharing)
        compared = compare(a, b, tasks=["stsb"], average=None, resamples=200, seed=run)
        interval = compared.tasks[0].interval
        assert interval is not None
        held += interval.low <= 0 <= interval.high
    return held / runs


@pytest.mark.parametrize(
    ("n", "sharing", "quality", "runs"),
    [
        (2, None, 0, 200),
        (3, SHARING, 0.03, 20),
        *(pytest.param(*case, 400, marks=pytest.mark.slow)
          for case in product((2, 3, 5, 10), (1, SHARING), (0, 0.03, 0.1))),
        *(pytest.param(n, None, 0, 2000, marks=pytest.mark.slow) for n in (2, 3, 5, 10)),
    ],
)  # fmt: skip
def test_intervals_of_equal_methods_hold_the_truth(n, sharing, quality, runs) -> None:
    # 93 to 97.7 %, and three standard errors of this simulation on each side.
    low, high = 0.93 - 3 * np.sqrt(0.07 * 0.93 / runs), 0.977 + 3 * np.sqrt(0.023 * 0.977 / runs)
    assert low <= coverage(n, n, runs=runs, sharing=sharing, quality=quality) <= high


def test_two_seeds_against_ten_are_not_too_narrow() -> None:
    # With Welch's degrees of freedom alone, 90 %.
    assert coverage(2, 10, runs=300) >= 0.94
