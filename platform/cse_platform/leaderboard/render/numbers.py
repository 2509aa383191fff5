"""Numbers as people read them: x 100, two decimals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cse_platform.leaderboard.published.row import MINUTES
from cse_platform.leaderboard.render.grid import Cell, Emphasis
from cse_platform.leaderboard.row import Estimate
from cse_platform.leaderboard.statistics.results import Interval

OVER_PAIRS = "‡"
OVER_PAIRS_MEANS = "Over the pairs of a single seed: how other seeds would do is not known."
LEAST_P = 0.001
ALPHA = 0.05


@dataclass(frozen=True)
class Scores:
    """The scores of one row, by column."""

    values: Mapping[str, float]
    cells: Mapping[str, Cell]
    """The same as they are shown."""


def percent(fraction: float | None) -> str:
    """A fraction x 100; nothing for None."""
    return "" if fraction is None else f"{100 * fraction:z.2f}"


def signed(fraction: float) -> str:
    """A difference x 100, with its sign."""
    return f"{100 * fraction:+z.2f}"


def score(estimate: Estimate | None) -> Cell:
    """Mean and standard deviation over seeds."""
    if estimate is None:
        return Cell()
    return Cell(percent(estimate.mean), spread=percent(estimate.std))


def printed(values: Mapping[str, float], std: Mapping[str, float]) -> Scores:
    """What a paper prints; minutes stay what they are."""
    cells = {
        column: Cell(f"{value:g}")
        if column == MINUTES
        else Cell(percent(value), spread=percent(std.get(column)))
        for column, value in values.items()
    }
    return Scores(values, cells)


def marks(*several: str) -> str:
    """Those that there are, as a cell bears them."""
    return " ".join(filter(None, several))


def bounds(interval: Interval | None) -> Cell:
    """`[78.12, 79.30]`, marked where it is over pairs instead of seeds."""
    if interval is None:
        return Cell()
    mark = OVER_PAIRS if interval.over == "pairs" else ""
    return Cell(f"[{percent(interval.low)}, {percent(interval.high)}]", mark=mark)


def probability(p: float | None) -> str:
    """A p value with three decimals, or that it is below what these can show."""
    if p is None:
        return ""
    return f"<{LEAST_P}" if p < LEAST_P else f"{p:.3f}"


def emphasised(scores: Sequence[Scores], columns: Iterable[str]) -> list[dict[str, Cell]]:
    """The cells of each row, with the best and second of these columns.

    Numbers are compared as they are shown: equal ones share a place. One that stands alone in its
    column is neither.
    """
    cells = [dict(row.cells) for row in scores]
    for column in columns:
        for own, place in zip(cells, _places(scores, column), strict=True):
            if column in own:
                own[column] = replace(own[column], emphasis=place)
    return cells


def _places(scores: Sequence[Scores], column: str) -> list[Emphasis]:
    shown = [round(100 * row.values[column], 2) if column in row.values else None for row in scores]
    there = [value for value in shown if value is not None]
    highest = sorted(set(there), reverse=True)[:2] if len(there) > 1 else []
    names: dict[float | None, Emphasis] = dict(zip(highest, ("best", "second"), strict=False))
    return [names.get(value, "none") for value in shown]
