"""The Pareto front, by hand and by its definition."""

import math
from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cse_platform.leaderboard.statistics.pareto import non_dominated

Direction = Literal["maximize", "minimize"]
numbers = st.sampled_from([0.0, 0.1, 0.2, 0.3, math.inf, -math.inf, math.nan])
both = st.sampled_from(["maximize", "minimize"])


def test_by_hand() -> None:
    # Score up, seconds down: the third is worse than the first in both, the fourth equals it.
    told = [(0.6, 30.0), (0.7, 90.0), (0.5, 40.0), (0.6, 30.0), (0.7, 95.0)]
    assert non_dominated(told, ["maximize", "minimize"]) == [0, 1, 3]
    assert non_dominated([], ["maximize", "minimize"]) == []


@given(objectives=st.integers(1, 4), data=st.data())
def test_it_is_what_nothing_is_better_than(objectives: int, data: st.DataObject) -> None:
    def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        pairs = [
            (a, b) if way == "maximize" else (b, a)
            for a, b, way in zip(one, other, directions, strict=True)
        ]
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)

    points = data.draw(st.lists(st.tuples(*[numbers] * objectives), max_size=12))
    directions: list[Direction] = data.draw(st.tuples(*[both] * objectives).map(list))
    front = non_dominated(points, directions)
    assert front == [
        place
        for place, point in enumerate(points)
        if not any(dominates(other, point) for other in points)
    ]


def test_many_points_of_one_front() -> None:
    """Compared each with each, they would take minutes."""
    score = np.random.default_rng(0).random(30_000)
    points = np.column_stack([score, score]).tolist()
    assert non_dominated(points, ["maximize", "minimize"]) == list(range(30_000))
