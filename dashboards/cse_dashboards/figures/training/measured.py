"""What one trial measured, by step: its losses, its other metrics, and the load of its machine."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import STEP, metric_quantity
from cse_dashboards.figures.picture import (
    Picture,
    colour,
    make_figure,
    make_panels,
    replace_missing,
)
from cse_methods.data.dev_selection import parse_width_metric
from cse_platform.leaderboard.records import DevPoint

LOSS = "train/loss"
MACHINE_METRICS = (
    *("perf/sentences_per_second", "perf/cpu_percent", "perf/gpu_percent"),
    *("perf/memory_gib", "perf/gpu_device_memory_gib", "perf/machine_memory_percent"),
    "perf/gpu_watts",
)


def losses_picture(curve: Sequence[DevPoint]) -> Picture:
    """Plot the training loss and its weighted parts against the step; a single part is the loss."""
    name, title, caption = "losses", "Training loss", "The loss that the method minimises."
    names = dict.fromkeys(name for point in curve for name in point.metrics)
    parts = [name for name in names if name.startswith(f"{LOSS}_")]
    data = _tabulate(curve, [LOSS, *(parts if len(parts) > 1 else ())])
    lines = [_make_line(data, column, index) for index, column in enumerate(data.columns[1:])]
    if not lines:
        return Picture(name, title, caption, missing="this trial reported no training loss")
    if len(lines) > 1:
        caption += " Its parts are weighted, and sum to it."
    figure = make_figure(*lines, title=title, x=STEP, y="training loss", hovermode="x unified")
    return Picture(name, title, caption, figure, data)


def other_metrics_picture(curve: Sequence[DevPoint], metric: str) -> Picture:
    """Plot every metric of dev and training against the step, but `metric`, the losses and dev
    scores by width.
    """
    names = dict.fromkeys(name for point in curve for name in point.metrics)
    left, apart = (metric, LOSS), ("perf/", f"{LOSS}_")
    shown = [name for name in names if name not in left and not name.startswith(apart)]
    shown = [name for name in shown if parse_width_metric(name) is None]
    return _draw_panels(
        "other_metrics", "Other metrics by step", "On dev, and of training.", curve, shown
    )


def machine_picture(curve: Sequence[DevPoint]) -> Picture:
    """Plot each measurement of the machine against the step; each covers the time between dev
    points.
    """
    caption = (
        "Each point stands for the time since the dev point before: means, and of memory the most. "
        "What concerns the GPU is of the whole device."
    )
    return _draw_panels("machine", "The machine by step", caption, curve, MACHINE_METRICS)


def _draw_panels(
    name: str, title: str, caption: str, curve: Sequence[DevPoint], metrics: Sequence[str]
) -> Picture:
    data = _tabulate(curve, metrics)
    panels = {
        column: [_make_line(data, column, 0, showlegend=False)] for column in data.columns[1:]
    }
    if not panels:
        return Picture(name, title, caption, missing="this trial reported none")
    figure = make_panels(panels, title=title, axes=[(STEP, "")] * len(panels), row_height=260)
    return Picture(name, title, caption, figure, data)


def _tabulate(curve: Sequence[DevPoint], metrics: Sequence[str]) -> pd.DataFrame:
    """Make a line per point with its step and those metrics that any point has, in their units."""
    quantities = list(map(metric_quantity, metrics))
    points = [[point.metrics.get(metric) for metric in metrics] for point in curve]
    data = pd.DataFrame(points, columns=[quantity.title for quantity in quantities], dtype=float)
    data = (data * [quantity.factor for quantity in quantities]).dropna(axis=1, how="all")
    data.insert(0, STEP, [point.step for point in curve])
    return data


def _make_line(data: pd.DataFrame, title: str, index: int, **given: object) -> go.Scatter:
    return go.Scatter(
        name=title,
        x=data[STEP].tolist(),
        y=replace_missing(data[title]),
        mode="lines+markers",
        line={"color": colour(index), "width": 2},
        marker={"size": 5},
        connectgaps=True,
        **given,
    )
