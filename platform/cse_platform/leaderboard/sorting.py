"""Sorts the rows of a leaderboard by one of their columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.records import (
    DEV,
    SCORE_COLUMNS,
    LeaderboardRow,
    is_of_mteb,
    order_by_dev,
)
from cse_platform.sweep.problems import did_you_mean
from cse_platform.tracking.history import COSTS


@dataclass(frozen=True)
class Order:
    """A sort order of rows: its name, its key, and whether the highest comes first."""

    name: str
    key: Callable[[LeaderboardRow], Any]
    """Returns None or an empty list for a row without a value."""
    descending: bool = True


def _order_scores(column: str) -> Order:
    return Order(column, lambda row: (score := row.scores.get(column)) and score.mean)


_rising = partial(Order, descending=False)
ORDERS: dict[str, Order] = {
    order.name: order
    for order in (
        _rising("method", lambda row: row.shown_method),
        _rising("backbone", lambda row: row.shown_backbone),
        _rising("sweep", lambda row: row.sweep),
        _rising("configuration", lambda row: row.configuration.hash),
        _rising("corpus", lambda row: row.corpus),
        Order("n", lambda row: row.n),
        _rising("dev_set", lambda row: (row.dev.search, row.dev.source)),
        Order(DEV, lambda row: row.dev_score.mean),
        Order("dev_std", lambda row: row.dev_score.std),
        Order("untrained", lambda row: row.dev_untrained),
        Order("trials", lambda row: row.trials),
        _rising("rank", lambda row: row.rank and (row.rank.best, row.rank.worst)),
        Order("gap", lambda row: row.gap and row.gap.difference),
        Order("gpu_hours", lambda row: row.gpu_hours),
        Order("wall_seconds", lambda row: row.wall_seconds),
        *(Order(cost, methodcaller("cost", cost)) for cost in COSTS),
        Order("finished", lambda row: row.finished),
        _rising("machines", lambda row: row.machines),
        _rising("tags", lambda row: row.tags),
        Order("std", lambda row: row.ranked_score and row.ranked_score.std),
        Order("best", lambda row: row.ranked_score and row.ranked_score.best),
        *map(_order_scores, SCORE_COLUMNS),
    )
}
"""The columns that rows can always be sorted by; `std` and `best` refer to the score that ranks a
row.
"""


def sort_rows(rows: Sequence[LeaderboardRow], column: str | None = None) -> list[LeaderboardRow]:
    """Sort rows by a column, by default by the score that ranks them.

    Ties are ordered by dev, each dev set by itself, and rows without a value come last. Texts and
    ranks sort from low to high, numbers and dates from high to low. Raises NotFoundError if the
    column is neither one of `ORDERS` nor a test set on which a row has a score.
    """
    scored = dict.fromkeys(name for row in rows for name in row.scores)
    headline = next((row.headline for row in rows if row.headline), DEV)
    column = column or headline
    order = ORDERS.get(column)
    if order is None and (column in scored or is_of_mteb(column) or not rows):
        order = _order_scores(column)
    if order is None:
        names = dict.fromkeys([*ORDERS, *scored])
        hint = f"{did_you_mean(column, names)}; expected {', '.join(names)}"
        raise NotFoundError(f"there is no column {column!r} to sort by{hint}")
    by_dev = order_by_dev(rows)
    sets = list(dict.fromkeys(row.dev.identity for row in by_dev))
    by_dev.sort(key=lambda row: sets.index(row.dev.identity))
    if column == DEV:
        return by_dev
    without = [row for row in by_dev if order.key(row) in (None, [])]
    known = [row for row in by_dev if order.key(row) not in (None, [])]
    return sorted(known, key=order.key, reverse=order.descending) + without
