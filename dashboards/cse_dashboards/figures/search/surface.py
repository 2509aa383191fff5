"""Score over two hyperparameters (RankCSE, figure 3)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.interpolate import griddata
from scipy.spatial import QhullError

from cse_dashboards.figures.labels import dev_quantity
from cse_dashboards.figures.picture import Picture, colour, make_figure
from cse_dashboards.figures.search import study
from cse_platform.leaderboard.past_searches import SearchHistory
from cse_platform.sweep.space.dimensions import Choices, Dimension

FEW = 12
"""Most values of a hyperparameter in a heat map."""
FINE = 40
"""Points along each side of the grid of a contour."""


def surface(history: SearchHistory, x: str | None = None, y: str | None = None) -> Picture:
    """Show the mean over configurations at each pair of values of two hyperparameters.

    By default, these are those of `pair_of`. It is a heat map if both have few, recurring values.
    Otherwise it has points and, if both are numeric, a linearly interpolated contour behind them.
    Incomplete trials, and those without both hyperparameters, are left out.
    """
    title = "Two hyperparameters and the score"
    caption = (
        "Mean on dev over the configurations of each pair of values, each the mean of its seeds "
        "that count on the leaderboard. After RankCSE, figure 3." + study.weighted_note(history)
    )
    names = study.pair_of(history, x, y)
    if len(names) < 2 or not all(name in history.space for name in names):
        why = study.nothing_searched(history)
        if len(history.space):
            why = (
                f"it takes two of the hyperparameters that sweep {history.sweep} searched "
                f"({', '.join(history.space)}), got {' and '.join(names) or 'none'}"
            )
        return Picture("surface", title, caption, missing=why)
    x, y = names
    title = f"{x} and {y}"
    if not study.scored_with(history.trials, x, y):
        why = f"no complete trial of sweep {history.sweep} has both {x} and {y}"
        return Picture("surface", title, caption, missing=why)
    quantity, space = dev_quantity(history.dev), history.space
    results = study.by_value(history.trials, x, y)
    means = {pair: quantity.factor * result.mean for pair, result in results.items()}
    sides = [list(dict.fromkeys(values)) for values in zip(*means, strict=True)]
    bar = {"colorbar": {"title": {"text": quantity.title, "side": "right"}}}
    by_name = {name: study.by_value(history.trials, name) for name in (x, y)}
    if all(
        len(of) <= FEW and study.do_recur(of.values(), space[name]) for name, of in by_name.items()
    ):
        traces, axes = [_make_cells(means, sides, bar)], [{"type": "category"}] * 2
    else:
        axes = [
            dict(study.axis_of(space[name], side)) for name, side in zip((x, y), sides, strict=True)
        ]
        line = {"width": 1, "color": colour(6)}
        points = go.Scatter(
            name="configurations",
            x=[across for across, _ in means],
            y=[down for _, down in means],
            mode="markers",
            marker={"color": list(means.values()), "size": 9, "line": line, **bar},
            hovertemplate="%{x}, %{y}: %{marker.color:.2f}<extra></extra>",
        )
        numeric = all(map(study.are_numbers, sides))
        between = _interpolate_contour(means, space[x], space[y], bar) if numeric else None
        traces = [points]
        if between is not None:
            traces.insert(0, between)
            caption += " Between the points it is interpolated linearly."
    figure = make_figure(*traces, title=f"Effect of {x} and {y}", x=x, y=y)
    figure.update_layout(xaxis=axes[0], yaxis=axes[1])
    records = [(*pair, means[pair], result.configurations) for pair, result in results.items()]
    columns = [x, y, quantity.title, "configurations"]
    data = pd.DataFrame(records, columns=columns, dtype=object)
    return Picture("surface", title, caption, figure, data)


def _make_cells(
    means: Mapping[Any, float], sides: Sequence[list[Any]], bar: dict[str, Any]
) -> go.Heatmap:
    across, down = (sorted(side) if study.are_numbers(side) else side for side in sides)
    return go.Heatmap(
        name="mean over configurations",
        x=list(map(str, across)),
        y=list(map(str, down)),
        z=[[means.get((x, y)) for x in across] for y in down],
        texttemplate="%{z:.2f}",
        xgap=2,
        ygap=2,
        hovertemplate="%{x}, %{y}: %{z:.2f}<extra></extra>",
        **bar,
    )


def _interpolate_contour(
    means: Mapping[Any, float], x: Dimension, y: Dimension, bar: dict[str, Any]
) -> go.Contour | None:
    """Interpolate linearly between the points, on the scales of the axes, without extrapolation.

    Returns None if the points lie on one line, or are fewer than three.
    """
    coordinates, values = np.array(list(means), dtype=float), list(means.values())
    logs = [not isinstance(dimension, Choices) and dimension.log for dimension in (x, y)]
    scaled = [np.log(side) if log else side for side, log in zip(coordinates.T, logs, strict=True)]
    lines = [np.linspace(side.min(), side.max(), FINE) for side in scaled]
    points = [(side - side.min()) / (np.ptp(side) or 1) for side in scaled]
    mesh = np.meshgrid(np.linspace(0, 1, FINE), np.linspace(0, 1, FINE))
    try:
        heights: NDArray[Any] = griddata(np.stack(points, axis=1), values, tuple(mesh))
    except QhullError:
        return None
    across, down = (np.exp(line) if log else line for line, log in zip(lines, logs, strict=True))
    return go.Contour(
        name="between configurations",
        x=across,
        y=down,
        z=[[None if np.isnan(height) else height for height in line] for line in heights.tolist()],
        # Not by a colour axis shared with the points: with one, Plotly's contours never finish.
        zmin=min(values),
        zmax=max(values),
        showscale=False,
        opacity=0.7,
        line={"width": 0.5},
        hoverinfo="skip",
        **bar,
    )
