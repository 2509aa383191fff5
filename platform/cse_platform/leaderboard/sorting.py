"""Sorts the rows of a leaderboard by one of their columns."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter, methodcaller
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


def _read_mean(column: str, row: LeaderboardRow) -> float | None:
    return None if (score := row.scores.get(column)) is None else score.mean


ORDERS: dict[str, Callable[[LeaderboardRow], Any]] = {
    "method": attrgetter("shown_method"),
    "backbone": attrgetter("shown_backbone"),
    "sweep": attrgetter("sweep"),
    "configuration": attrgetter("configuration.hash"),
    "corpus": attrgetter("corpus"),
    "n": attrgetter("n"),
    "dev_set": attrgetter("dev.search", "dev.source"),
    DEV: attrgetter("dev_score.mean"),
    "dev_std": attrgetter("dev_score.std"),
    "untrained": attrgetter("dev_untrained"),
    "trials": attrgetter("trials"),
    "rank": lambda row: row.rank and (row.rank.best, row.rank.worst),
    "gap": lambda row: row.gap and row.gap.difference,
    "gpu_hours": attrgetter("gpu_hours"),
    "wall_seconds": attrgetter("wall_seconds"),
    **{cost: methodcaller("cost", cost) for cost in COSTS},
    "finished": attrgetter("finished"),
    "machines": attrgetter("machines"),
    "tags": attrgetter("tags"),
    "std": lambda row: row.ranked_score and row.ranked_score.std,
    "best": lambda row: row.ranked_score and row.ranked_score.best,
    **{column: partial(_read_mean, column) for column in SCORE_COLUMNS},
}
"""The columns that rows can always be sorted by, with what reads their values: None or an empty
list for a row without one. `std` and `best` refer to the score that ranks a row.
"""
RISING = {
    *("method", "backbone", "sweep", "configuration", "corpus"),
    *("dev_set", "rank", "machines", "tags"),
}
"""The columns that sort from low to high; others sort from high to low."""


def sort_rows(rows: Sequence[LeaderboardRow], column: str | None = None) -> list[LeaderboardRow]:
    """Sort rows by a column, by default by the score that ranks them.

    Ties are ordered by dev, each dev set by itself, and rows without a value come last. Texts and
    ranks sort from low to high, numbers and dates from high to low. Raises NotFoundError if the
    column is neither one of `ORDERS` nor a test set on which a row has a score.
    """
    scored = dict.fromkeys(name for row in rows for name in row.scores)
    column = column or next((row.headline for row in rows if row.headline), DEV)
    if column not in {*ORDERS, *scored} and rows and not is_of_mteb(column):
        names = dict.fromkeys([*ORDERS, *scored])
        hint = f"{did_you_mean(column, names)}; expected {', '.join(names)}"
        raise NotFoundError(f"there is no column {column!r} to sort by{hint}")
    by_dev = order_by_dev(rows)
    sets = list(dict.fromkeys(row.dev.identity for row in by_dev))
    by_dev.sort(key=lambda row: sets.index(row.dev.identity))
    if column == DEV:
        return by_dev
    key = ORDERS.get(column, partial(_read_mean, column))
    without = [row for row in by_dev if key(row) in (None, [])]
    known = [row for row in by_dev if key(row) not in (None, [])]
    return sorted(known, key=key, reverse=column not in RISING) + without
