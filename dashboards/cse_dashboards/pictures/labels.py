"""What rows are called in figures that have a colour for each."""

from collections.abc import Mapping, Sequence

from cse_dashboards.figures.look import PALETTE
from cse_platform.leaderboard.query.board.resolve import named_rows
from cse_platform.leaderboard.row import LeaderboardRow

MOST = len(PALETTE)
PANELS = 4
"""Rows in a figure that has a panel for each."""


def first_rows(rows: Sequence[LeaderboardRow]) -> tuple[Mapping[str, LeaderboardRow], str]:
    """By label as many of the first rows as there are colours, and what to add to a caption."""
    left = f" The first {MOST} of {len(rows)} rows are shown." if len(rows) > MOST else ""
    return named_rows(rows[:MOST]), left
