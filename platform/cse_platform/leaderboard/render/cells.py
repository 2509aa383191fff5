"""How scores, intervals and marks stand in tables for people."""

from cse_platform.leaderboard.row import Estimate
from cse_platform.leaderboard.statistics.results import Interval
from cse_platform.render.formats import percent
from cse_platform.render.table import Cell

ALPHA = 0.05
OVER_PAIRS = "‡"
OVER_PAIRS_MEANS = "Over the pairs of a single seed: how other seeds would do is not known."


def score_cell(estimate: Estimate) -> Cell:
    """Mean and standard deviation over seeds."""
    return Cell(percent(estimate.mean), spread=percent(estimate.std))


def interval_cell(interval: Interval) -> Cell:
    """`[78.12, 79.30]`, marked where it is over pairs instead of seeds."""
    mark = OVER_PAIRS if interval.over == "pairs" else ""
    return Cell(f"[{percent(interval.low)}, {percent(interval.high)}]", mark=mark)


def join_marks(*marks: str) -> str:
    """The marks that are not empty, as a cell bears them."""
    return " ".join(filter(None, marks))
