"""The order of rows."""

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.row import BOARD_FAMILIES, LeaderboardRow
from cse_platform.tracking.effort import COSTS

TEXT_COLUMNS: dict[str, Callable[[LeaderboardRow], Any]] = {
    "method": lambda row: row.shown_method,
    "backbone": lambda row: row.shown_backbone,
    "sweep": lambda row: row.sweep,
    "configuration": lambda row: row.configuration.hash,
    "corpus": lambda row: row.corpus,
    "dev_set": lambda row: (row.dev.search, row.dev.source),
    "machines": lambda row: row.machines or None,
    "tags": lambda row: row.tags or None,
    "rank": lambda row: (row.rank.best, row.rank.worst) if row.rank else None,
}
"""From the lowest up."""
NUMBER_COLUMNS: dict[str, Callable[[LeaderboardRow], Any]] = {
    "dev": lambda row: row.dev_score.mean,
    "dev_std": lambda row: row.dev_score.std,
    "untrained": lambda row: row.dev_untrained,
    "std": lambda row: row.ranked_score.std if row.ranked_score else None,
    "best": lambda row: row.ranked_score.best if row.ranked_score else None,
    "n": lambda row: row.n,
    "trials": lambda row: row.trials,
    "gpu_hours": lambda row: row.gpu_hours,
    "wall_seconds": lambda row: row.wall_seconds,
    **{name: methodcaller("cost", name) for name in COSTS},
    "finished": lambda row: row.finished,
    "gap": lambda row: row.gap.difference if row.gap else None,
}
"""From the highest down, as test scores are."""
SCORE_COLUMNS = tuple(column for family in BOARD_FAMILIES.values() for column in family.columns)
SORT_COLUMNS = (*TEXT_COLUMNS, *NUMBER_COLUMNS, *SCORE_COLUMNS)


def sort_rows(rows: Sequence[LeaderboardRow], column: str) -> list[LeaderboardRow]:
    """Rows by a column; those without a value last, equal ones by dev, the highest first.

    Texts and ranks stand from the lowest up, numbers and dates from the highest down.

    Raises:
        NotFoundError: if it is none of them.
    """
    if column not in SORT_COLUMNS:
        raise NotFoundError(
            f"there is no column {column!r} to sort by; expected {', '.join(SORT_COLUMNS)}"
        )
    value = TEXT_COLUMNS.get(column) or NUMBER_COLUMNS.get(column) or _score(column)
    by_dev = sorted(rows, key=lambda row: (-row.dev_score.mean, row.method, row.configuration.hash))
    known = [row for row in by_dev if value(row) is not None]
    known.sort(key=value, reverse=column not in TEXT_COLUMNS)
    return known + [row for row in by_dev if value(row) is None]


def _score(column: str) -> Callable[[LeaderboardRow], Any]:
    return lambda row: row.scores[column].mean if column in row.scores else None
