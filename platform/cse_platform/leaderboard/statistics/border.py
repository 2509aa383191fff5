"""Whether the best trials of a search lie at the border of its space."""

from collections.abc import Sequence
from typing import Literal

from scipy.special import bdtrc  # the binomial distribution's upper tail

BorderSide = Literal["low", "high"]

_BEST = 5
"""Trials that are looked at."""
_LEVEL = 0.01
"""How often so many of them may lie at one side by chance alone."""


def border_side(
    sides: Sequence[BorderSide | None], *, chances: dict[BorderSide, float], level: float = _LEVEL
) -> tuple[BorderSide, int] | None:
    """The side of a dimension at which the best trials lie, and how many of them.

    It is told where the best trial lies there and so many of the best five that trials spread
    evenly over the dimension would do so in at most 1 of 100 searches. With a tenth of a range at
    each side these are three of five; with the last of three choices, all five. A list of two
    choices has no border by this rule.

    Args:
        sides: where each trial that has the dimension lies, the best one first.
        chances: the share of the dimension that counts as each side.
        level: see above.

    Returns:
        None where they do not, or fewer than five trials have the dimension.
    """
    best = sides[:_BEST]
    if len(best) < _BEST or (side := best[0]) is None:
        return None
    there = sum(one == side for one in best)
    by_chance = float(bdtrc(there - 1, _BEST, chances[side])) if there else 1.0
    return (side, there) if by_chance <= level else None
