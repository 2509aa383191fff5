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
    three = [Contender(name, {"mr": values}) for name, values in scores.items()]
    matrix = compare_all(three, tasks=["mr"], resamples=300)
    assert matrix.p[0][1] is matrix.p[1][2] is None
    assert matrix.p[0][2] == matrix.p_holm[0][2] is not None
    assert matrix.effects[0] == pytest.approx((0, 0.105, 0.2))


@pytest.mark.parametrize("n, least", [(3, 0.0), (10, 0.015)])
def test_equal_methods_rarely_differ_over_seeds(n: int, least: float) -> None:
    rng, claimed = np.random.default_rng(0), 0
    for run in range(300):
        a, b = (
            Contender("a", {"stsb": seeds}) for seeds in rng.normal(0.76, 0.01, (2, n)).tolist()
        )
        row = compare(a, b, tasks=["stsb"], average=None, resamples=300, seed=run).tasks[0]
        claimed += row.p is not None and row.p < 0.05
    assert least <= claimed / 300 <= 0.07
