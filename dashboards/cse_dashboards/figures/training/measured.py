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
from cse_platform.leaderboard.records import DevPoint

LOSS = "train/loss"
MACHINE_METRICS = (
    *("perf/sentences_per_second", "perf/cpu_percent", "perf/gpu_percent"),
    *("perf/memory_gib", "perf/gpu_device_memory_gib", "perf/machine_memory_percent"),
    "perf/gpu_watts",
)


def losses_picture(curve: Sequence[DevPoint]) -> Picture:
    """Plot the training loss and its weighted parts against the step; a single part is the loss."""
    name, title = "losses", "Training loss"
    parts = _list_parts(curve)
    shown = [metric for metric in (LOSS, *parts) if _is_measured(curve, metric)]
    caption = (
        "The loss that the method minimises."
        + " Its parts are weighted, and sum to it." * bool(parts)
    )
    if not shown:
        return Picture(name, title, caption, missing="this trial reported no training loss")
    data = _tabulate(curve, shown)
    traces = [
        _make_line(data, metric_quantity(metric).title, index) for index, metric in enumerate(shown)
    ]
    figure = make_figure(*traces, title=title, x=STEP, y="training loss", hovermode="x unified")
    return Picture(name, title, caption, figure, data)


def other_metrics_picture(curve: Sequence[DevPoint], metric: str) -> Picture:
    """Plot every metric of dev and training but `metric` and the losses against the step."""
    names = dict.fromkeys(name for point in curve for name in point.metrics)
    left, apart = (metric, LOSS), ("perf/", f"{LOSS}_")
    shown = [name for name in names if name not in left and not name.startswith(apart)]
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
    shown = [metric for metric in metrics if _is_measured(curve, metric)]
    if not shown:
        return Picture(name, title, caption, missing="this trial reported none")
    data = _tabulate(curve, shown)
    panels = {
        title: [_make_line(data, title, 0, showlegend=False)]
        for title in (metric_quantity(metric).title for metric in shown)
    }
    figure = make_panels(panels, title=title, axes=[(STEP, "")] * len(panels), row_height=260)
    return Picture(name, title, caption, figure, data)


def _list_parts(curve: Sequence[DevPoint]) -> list[str]:
    """List the parts of the loss; none if it has only one."""
    names = dict.fromkeys(name for point in curve for name in point.metrics)
    parts = [name for name in names if name.startswith(f"{LOSS}_")]
    return parts if len(parts) > 1 else []


def _is_measured(curve: Sequence[DevPoint], metric: str) -> bool:
    return any(point.metrics.get(metric) is not None for point in curve)


def _tabulate(curve: Sequence[DevPoint], metrics: Sequence[str]) -> pd.DataFrame:
    """Make a line per point with its step and these metrics, under the titles of their axes."""
    lines = []
    for point in curve:
        line: dict[str, float | None] = {STEP: point.step}
        for metric in metrics:
            quantity, value = metric_quantity(metric), point.metrics.get(metric)
            line[quantity.title] = None if value is None else quantity.factor * value
        lines.append(line)
    return pd.DataFrame(lines)


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
