"""Which configuration is the best: one rule, for Python and for SQL.

A configuration with more than one seed goes before any with a single, maybe lucky, one. Then the
higher mean dev score wins, and of equal means the higher hash, which means nothing and is the same
everywhere. Whoever selects by this rule selects what the leaderboard shows.
"""

from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import aliased

from cse_platform.leaderboard.store.tables import ConfigurationRecord, GroupRecord

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
    return (seeds > 1).desc(), (seeds > 0).desc(), _rounded(mean).desc(), configuration.desc()


def _rounded(mean: Any) -> ColumnElement[float]:
    """A mean dev score in the unit that means are compared in."""
    return func.round(mean * _UNIT)


def best_of_group() -> ColumnElement[Any]:
    """The same rule for whole groups: the id of each group's best configuration, by an index."""
    return func.coalesce(
        _highest_of_group(several_seeds=True), _highest_of_group(several_seeds=False)
    )


def _highest_of_group(*, several_seeds: bool) -> Any:
    """The best configuration of a group, by the stored means.

    An index has the configurations in order of their means, those with several seeds and all. Two
    look-ups in it, however many there are: the highest mean, and the means that may equal it, among
    which `_rounded` decides.
    """
    one, other = aliased(ConfigurationRecord), aliased(ConfigurationRecord)

    def of_group(each: Any) -> Any:
        seeds = each.n > 1 if several_seeds else each.n > 0
        return (each.group_id == GroupRecord.id) & seeds

    highest = (
        select(other.mean).where(of_group(other)).order_by(other.mean.desc()).limit(1)
    ).correlate(GroupRecord)
    return (
        select(one.id)
        .where(of_group(one), one.mean >= highest.scalar_subquery() - 1 / _UNIT)
        .order_by(_rounded(one.mean).desc(), one.hash.desc())
        .limit(1)
        .correlate(GroupRecord)
        .scalar_subquery()
    )
