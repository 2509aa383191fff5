"""Everyone against everyone; and how often a comparison claims what is not so, or sees what is."""

from collections.abc import Callable

import numpy as np
import pytest

from cse_platform.leaderboard.statistics.compare import compare, compare_all, holm
from cse_platform.leaderboard.statistics.contenders import Contender

TASKS = ("stsb", "sickr")
Make = Callable[..., Contender]


def test_matrix_holds_what_single_comparisons_give(contender: Make) -> None:
    three = [contender("a", [0.5, 0.6]), contender("b", [1.0]), contender("c", [0.7, 0.8, 0.9])]
    told: list[int] = []
    matrix = compare_all(three, tasks=TASKS, resamples=300, progress=told.append)
    assert matrix.names == ("a", "b", "c")
    assert sum(told) == 2 * 6 * 300
    for i, a in enumerate(three):
        assert (matrix.effects[i][i], matrix.p[i][i], matrix.p_holm[i][i]) == (0, None, None)
        for j, b in enumerate(three):
            if i != j:
                average = compare(a, b, tasks=TASKS, average="avg_sts", resamples=300).average
                assert average is not None
                assert matrix.effects[i][j] == pytest.approx(average.effect)
                assert matrix.p[i][j] == average.p
    above = [(0, 1), (0, 2), (1, 2)]
    corrected = holm([matrix.p[i][j] for i, j in above])
    assert [matrix.p_holm[i][j] for i, j in above] == corrected
    assert [matrix.p_holm[j][i] for i, j in above] == corrected
    [note] = matrix.notes
    assert note.startswith("b has one seed: ")


def test_matrix_leaves_open_what_one_seed_without_pairs_does() -> None:
    scores = {"a": [0.8, 0.81], "b": [0.7], "c": [0.6, 0.61]}
    matrix = compare_all(
        [Contender(name, {"mr": values}) for name, values in scores.items()],
        tasks=["mr"],
        resamples=300,
    )
    assert matrix.p[0][1] is matrix.p[1][2] is None
    assert matrix.p[0][2] == matrix.p_holm[0][2] is not None
    assert matrix.effects[0] == pytest.approx((0, 0.105, 0.2))


def test_an_obvious_difference_is_seen(contender: Make) -> None:
    for noise in ([0.3], [0.3, 0.31, 0.32]):
        good, bad = contender("good", noise), contender("bad", [3 * one for one in noise])
        found = compare(good, bad, tasks=TASKS, average="avg_sts", resamples=1000)
        assert found.average is not None
        assert found.average.p is not None
        assert found.average.p < 0.05
        assert found.average.interval is not None
        assert found.average.interval.low > 0


def share_claimed(
    make: Callable[[np.random.Generator], tuple[Contender, Contender]], comparisons: int
) -> float:
    """Of so many comparisons, the share that claims a difference at 5 %."""
    rng, claimed = np.random.default_rng(0), 0
    for run in range(comparisons):
        a, b = make(rng)
        row = compare(a, b, tasks=["stsb"], average=None, resamples=300, seed=run).tasks[0]
        claimed += row.p is not None and row.p < 0.05
    return claimed / comparisons


@pytest.mark.parametrize(
    ("comparisons", "least", "most"),
    [(80, 0, 0.12), pytest.param(300, 0.01, 0.07, marks=pytest.mark.slow)],
)
def test_equal_encoders_rarely_differ_over_pairs(
    comparisons: int, least: float, most: float
) -> None:
    def equals(rng: np.random.Generator) -> tuple[Contender, Contender]:
        gold = np.round(rng.normal(size=60), 1)
        first, second = gold + rng.normal(scale=0.8, size=(2, 1, 60))
        scores, of = {"stsb": [0.7]}, {"stsb": gold}
        return (
            Contender("a", scores, {"stsb": first}, of),
            Contender("b", scores, {"stsb": second}, of),
        )

    assert least <= share_claimed(equals, comparisons) <= most


@pytest.mark.parametrize("n, least", [(3, 0.0), (10, 0.015)])
def test_equal_methods_rarely_differ_over_seeds(n: int, least: float) -> None:
    def equals(rng: np.random.Generator) -> tuple[Contender, Contender]:
        a, b = rng.normal(0.76, 0.01, size=(2, n)).tolist()
        return Contender("a", {"stsb": a}), Contender("b", {"stsb": b})

    assert least <= share_claimed(equals, 300) <= 0.07
