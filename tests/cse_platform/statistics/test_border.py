"""Whether the best trials lie at the border of a dimension."""

from typing import Any

import numpy as np
import pytest

from cse_platform.leaderboard.statistics.searches import BorderSide, border_side

TENTH: dict[BorderSide, float] = {"low": 0.1, "high": 0.1}
THIRD: dict[BorderSide, float] = {"low": 1 / 3, "high": 1 / 3}


@pytest.mark.parametrize(
    ("sides", "chances", "found"),
    [
        (["high", None, "high", "high", None], TENTH, ("high", 3)),
        (["low"] * 5, TENTH, ("low", 5)),
        (["high", None, "high", None, None], TENTH, None),  # two may be chance
        ([None, "high", "high", "high", "high"], TENTH, None),  # the best is inside
        (["high", "high", "high", "high"], TENTH, None),  # fewer than five
        (["high", "high", "high", "high", None], THIRD, None),
        (["high"] * 5, THIRD, ("high", 5)),
        (["high"] * 5, {"low": 0.5, "high": 0.5}, None),
    ],
)
def test_cases(sides: list[BorderSide | None], chances: Any, found: Any) -> None:
    assert border_side(sides, chances=chances) == found
    assert border_side([*sides[:5], "low", "low"], chances=chances) == found or len(sides) < 5


def test_a_search_without_effect_is_seldom_said_to_be_at_the_border() -> None:
    rng, said = np.random.default_rng(0), 0
    for shares in rng.random((4000, 5)):
        sides: list[BorderSide | None] = [
            "low" if share <= 0.1 else "high" if share >= 0.9 else None for share in shares
        ]
        said += border_side(sides, chances=TENTH) is not None
    assert said / 4000 < 0.02  # one of two sides, at most 1 in 100 each
