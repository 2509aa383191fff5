"""How scores, costs, intervals and marks stand in tables for people."""

from cse_platform.leaderboard.row import Estimate
from cse_platform.leaderboard.statistics.results import Interval
from cse_platform.render.formats import percent
from cse_platform.render.table import Cell
from cse_platform.tracking.effort import (
    EPOCH_MINUTES,
    GPU_MEMORY,
    HOST_MEMORY,
    MEMORY,
    SPEED,
    TRAIN_MINUTES,
)

ALPHA = 0.05
OVER_PAIRS = "‡"
OVER_PAIRS_MEANS = "Over the pairs of a single seed: how other seeds would do is not known."


COST_HEADS = {
    TRAIN_MINUTES: "train minutes",
    EPOCH_MINUTES: "epoch minutes",
    SPEED: "sentences per second",
    GPU_MEMORY: "GPU memory",
    HOST_MEMORY: "host memory",
}
EXTRAPOLATED = "~"
EXTRAPOLATED_MEANS = "Extrapolated: a trial trained through less than one epoch."


def score_cell(estimate: Estimate) -> Cell:
    """Mean and standard deviation over seeds."""
    return Cell(percent(estimate.mean), spread=percent(estimate.std))


def cost_cell(name: str, cost: float, *, extrapolated: bool = False) -> Cell:
    """One of `COSTS`, with as many decimals as say something."""
    if name in MEMORY:
        text = f"{cost:.2f} GiB"
    else:
        text = f"{cost:.{0 if name == SPEED else 1 if cost >= 10 else 2}f}"
    return Cell(text, mark=EXTRAPOLATED if extrapolated else "")


def interval_cell(interval: Interval) -> Cell:
    """`[78.12, 79.30]`, marked where it is over pairs instead of seeds."""
    mark = OVER_PAIRS if interval.over == "pairs" else ""
    return Cell(f"[{percent(interval.low)}, {percent(interval.high)}]", mark=mark)


def join_marks(*marks: str) -> str:
    """The marks that are not empty, as a cell bears them."""
    return " ".join(filter(None, marks))
