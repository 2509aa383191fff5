"""Which configuration is the best: one rule, for Python and for SQL.

A configuration with more than one seed goes before any with a single, maybe lucky, one. Then the
higher mean dev score wins, and of equal means the higher hash, which means nothing and is the same
everywhere. Whoever selects by this rule selects what the leaderboard shows.
"""

from typing import Any

from sqlalchemy import ColumnElement, func

_UNIT = 1e12
"""Means are compared in units of 1e-12. The store updates its means seed by seed, a filtered board
takes SQL's `avg`, a sweep takes `fmean`. They add in another order, so that their means of equal
seeds can differ in the last bit. No dev score is known to twelve digits, and a mean of fractions in
this unit is a whole number that a float holds."""

BestKey = tuple[bool, int, str]


def best_key(*, seeds: int, mean: float, configuration: str) -> BestKey:
    """The best configuration has the highest key.

    The mean is that of the dev scores of its complete seeds.
    """
    return seeds > 1, round(mean * _UNIT), configuration


def best_first(seeds: Any, mean: Any, configuration: Any) -> tuple[ColumnElement[Any], ...]:
    """The same rule as the `ORDER BY` of a query; configurations without a seed come last."""
    return (seeds > 1).desc(), (seeds > 0).desc(), rounded(mean).desc(), configuration.desc()


def rounded(mean: Any) -> ColumnElement[float]:
    """A mean dev score in the unit that means are compared in."""
    return func.round(mean * _UNIT)


def at_least(mean: Any, best: Any) -> ColumnElement[bool]:
    """Whether a mean may equal the highest one; an index finds these, and `rounded` decides."""
    condition: ColumnElement[bool] = mean >= best - 1 / _UNIT
    return condition
