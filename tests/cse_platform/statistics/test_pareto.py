"""The Pareto front, by hand and by its definition."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from cse_platform.leaderboard.statistics.pareto import non_dominated

Direction = Literal["maximize", "minimize"]
numbers = st.sampled_from([0.0, 0.1, 0.2, 0.3])
points = st.lists(st.tuples(numbers, numbers, numbers), max_size=12)
directions = st.tuples(*[st.sampled_from(["maximize", "minimize"])] * 3)


def test_by_hand() -> None:
    # Score up, seconds down: the third is worse than the first in both, the fourth equals it.
    told = [(0.6, 30.0), (0.7, 90.0), (0.5, 40.0), (0.6, 30.0), (0.7, 95.0)]
    assert non_dominated(told, ["maximize", "minimize"]) == [0, 1, 3]
    assert non_dominated([], ["maximize", "minimize"]) == []


@given(points=points, directions=directions)
def test_it_is_what_nothing_is_better_than(
    points: list[tuple[float, ...]], directions: tuple[Direction, ...]
) -> None:
    def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        pairs = [
            (a, b) if way == "maximize" else (b, a)
            for a, b, way in zip(one, other, directions, strict=True)
        ]
        return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)

    front = non_dominated(points, directions)
    assert front == [
        place
        for place, point in enumerate(points)
        if not any(dominates(other, point) for other in points)
    ]
