"""Score over two hyperparameters (RankCSE, figure 3)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.interpolate import griddata
from scipy.spatial import QhullError

from cse_dashboards.figures.labels import Quantity, dev_quantity
from cse_dashboards.figures.picture import Drawn, Picture, colour, make_figure
from cse_dashboards.figures.search.effect import weighted_note
from cse_dashboards.figures.search.study import no_pair, pair_of
from cse_dashboards.figures.search.values import (
    AtValue,
    axis_of,
    by_value,
    do_recur,
    is_number,
    scored_with,
)
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.searches import SearchHistory
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import Space

FEW = 12
"""Most values of a hyperparameter in a heat map."""
FINE = 40
"""Points along each side of the grid of a contour."""

Found = Mapping[tuple[Any, Any], AtValue]


def surface(history: SearchHistory, x: str | None = None, y: str | None = None) -> Picture:
    """Show the score over two hyperparameters, by default those of `pair_of`."""
    title = "Two hyperparameters and the score"
    caption = (
        "Mean on dev over the configurations of each pair of values, each the mean of its seeds. "
        "After RankCSE, figure 3." + weighted_note(history)
    )
    names = pair_of(history, x, y)
    if why := no_pair(history, names):
        return Picture("surface", title, caption, missing=why)
    x, y = names
    title = f"{x} and {y}"
    if not scored_with(history.trials, x, y):
        why = f"no complete trial of sweep {history.sweep} has both {x} and {y}"
        return Picture("surface", title, caption, missing=why)
    figure, data = draw_surface(history.trials, x, y, history.space, dev_quantity(history.dev))
    if any(trace.type == "contour" for trace in figure.data):
        caption += " Between the points it is interpolated linearly."
    return Picture("surface", title, caption, figure, data)


def draw_surface(
    trials: Sequence[Trial], x: str, y: str, space: Space, quantity: Quantity
) -> Drawn:
    """Draw the mean over configurations at each pair of values.

    It is a heat map if both hyperparameters have few, recurring values. Otherwise it has points
    and, if both are numeric, a linearly interpolated contour behind them. Incomplete trials, and
    those without both hyperparameters, are left out.
    """
    results = by_value(trials, x, y)
    sides = [list(dict.fromkeys(place[side] for place in results)) for side in (0, 1)]
    if all(_has_recurring_values(trials, name, space[name]) for name in (x, y)):
        traces, axes = [_make_cells(results, sides, quantity)], [{"type": "category"}] * 2
    else:
        numeric = [all(map(is_number, side)) for side in sides]
        axes = [
            dict(axis_of(space[n], numeric=is_)) for n, is_ in zip((x, y), numeric, strict=True)
        ]
        between = (
            _interpolate_contour(results, space[x], space[y], quantity) if all(numeric) else None
        )
        traces = [*filter(None, [between]), _make_points(results, quantity)]
    figure = make_figure(*traces, title=f"Effect of {x} and {y}", x=x, y=y)
    figure.update_layout(xaxis=axes[0], yaxis=axes[1])
    records = [
        (*place, quantity.factor * at.mean, at.configurations) for place, at in results.items()
    ]
    columns = [x, y, quantity.title, "configurations"]
    return Drawn(figure, pd.DataFrame(records, columns=columns, dtype=object))


def _has_recurring_values(trials: Sequence[Trial], name: str, dimension: Dimension) -> bool:
    results = by_value(trials, name)
    return len(results) <= FEW and do_recur(results.values(), dimension)


def _make_cells(results: Found, sides: Sequence[list[Any]], quantity: Quantity) -> go.Heatmap:
    across, down = (sorted(side) if all(map(is_number, side)) else side for side in sides)
    values = [
        [quantity.factor * results[x, y].mean if (x, y) in results else None for x in across]
        for y in down
    ]
    return go.Heatmap(
        name="mean over configurations",
        x=list(map(str, across)),
        y=list(map(str, down)),
        z=values,
        **_make_colorbar(quantity),
        texttemplate="%{z:.2f}",
        xgap=2,
        ygap=2,
        hovertemplate="%{x}, %{y}: %{z:.2f}<extra></extra>",
    )


def _make_points(results: Found, quantity: Quantity) -> go.Scatter:
    return go.Scatter(
        name="configurations",
        x=[x for x, _ in results],
        y=[y for _, y in results],
        mode="markers",
        marker={
            "color": [quantity.factor * at.mean for at in results.values()],
            "size": 9,
            **_make_colorbar(quantity),
            "line": {"width": 1, "color": colour(6)},
        },
        hovertemplate="%{x}, %{y}: %{marker.color:.2f}<extra></extra>",
    )


def _interpolate_contour(
    results: Found, x: Dimension, y: Dimension, quantity: Quantity
) -> go.Contour | None:
    """Interpolate linearly between the points, on the scales of the axes, without extrapolation.

    Returns None if the points lie on one line, or are fewer than three.
    """
    places = np.array(list(results), dtype=float)
    values = [quantity.factor * at.mean for at in results.values()]
    scaled = [_scale_values(places[:, side], dimension) for side, dimension in enumerate((x, y))]
    lines = [np.linspace(side.min(), side.max(), FINE) for side in scaled]
    points = [(side - side.min()) / (np.ptp(side) or 1) for side in scaled]
    mesh = np.meshgrid(np.linspace(0, 1, FINE), np.linspace(0, 1, FINE))
    try:
        heights: NDArray[Any] = griddata(np.stack(points, axis=1), values, tuple(mesh))
    except QhullError:
        return None
    return go.Contour(
        name="between configurations",
        x=_unscale_values(lines[0], x),
        y=_unscale_values(lines[1], y),
        z=[[None if np.isnan(height) else height for height in line] for line in heights.tolist()],
        # Not by a colour axis shared with the points: with one, Plotly's contours never finish.
        zmin=min(values),
        zmax=max(values),
        **_make_colorbar(quantity),
        showscale=False,
        opacity=0.7,
        line={"width": 0.5},
        hoverinfo="skip",
    )


def _make_colorbar(quantity: Quantity) -> dict[str, Any]:
    bar = {"title": {"text": quantity.title, "side": "right"}}
    return {"colorbar": bar}


def _is_log(dimension: Dimension) -> bool:
    return not isinstance(dimension, Choices) and dimension.log


def _scale_values(values: NDArray[Any], dimension: Dimension) -> NDArray[Any]:
    return np.log(values) if _is_log(dimension) else values


def _unscale_values(values: NDArray[Any], dimension: Dimension) -> NDArray[Any]:
    return np.exp(values) if _is_log(dimension) else values
