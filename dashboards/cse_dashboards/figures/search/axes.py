"""The axis of a hyperparameter."""

from collections.abc import Mapping
from typing import Any

from cse_dashboards.figures.search.values import is_number, on_axis
from cse_platform.sweep.space.dimensions import Choices, Dimension

TINY = 1e-3
LOG_TICKS = 4
"""For which Plotly marks 1, 2 and 5 of each power of ten, unless the axis is short or very long."""


def axis_of(dimension: Dimension, *, numeric: bool) -> Mapping[str, Any]:
    """How the axis of a hyperparameter is laid out; `numeric` if all its values are numbers."""
    if not numeric:
        order = (
            [on_axis(one) for one in dimension.choices] if isinstance(dimension, Choices) else []
        )
        return {"type": "category", "categoryorder": "array", "categoryarray": order}
    if isinstance(dimension, Choices):
        return {"tickvals": sorted(filter(is_number, dimension.choices))}
    return log_axis(dimension) if dimension.log else {"type": "linear", "exponentformat": "e"}


def log_axis(dimension: Dimension) -> dict[str, Any]:
    """A log axis with whole numbers at its ticks: left alone, Plotly writes `2` for 0.2 and for 20.

    From values below a thousandth on, ticks are powers such as `2e-5`.
    """
    numbers = dimension.choices if isinstance(dimension, Choices) else [dimension.low]
    low = min(filter(is_number, numbers))
    return {"type": "log", "tickformat": "~e" if low < TINY else "~r", "nticks": LOG_TICKS}
