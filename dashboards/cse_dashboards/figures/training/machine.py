"""Machine load while a trial trained: speed, processor, memory and power, by step."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import metric_quantity
from cse_dashboards.figures.picture import Drawn, Picture, colour, make_panels, replace_missing
from cse_platform.leaderboard.records import DevPoint

MACHINE_METRICS = (
    *("perf/sentences_per_second", "perf/cpu_percent", "perf/gpu_percent"),
    *("perf/memory_gib", "perf/gpu_device_memory_gib", "perf/machine_memory_percent"),
    "perf/gpu_watts",
)


def machine_picture(curve: Sequence[DevPoint]) -> Picture:
    """Plot each measurement of the machine against the step; each covers the time between dev
    points.
    """
    shown = [m for m in MACHINE_METRICS if any(point.metrics.get(m) is not None for point in curve)]
    name, title = "machine", "The machine by step"
    caption = (
        "Each point stands for the time since the dev point before: means, and of memory the most. "
        "What concerns the GPU is of the whole device."
    )
    if not shown:
        return Picture(name, title, caption, missing="this trial has no measurement of its machine")
    titles = {metric: metric_quantity(metric).title for metric in shown}
    data = pd.DataFrame(
        [
            {"step": point.step, **{titles[metric]: point.metrics.get(metric) for metric in shown}}
            for point in curve
        ]
    )
    panels = {
        column: [
            go.Scatter(
                name=column,
                x=data["step"].tolist(),
                y=replace_missing(data[column]),
                mode="lines+markers",
                line={"color": colour(0), "width": 2},
                marker={"size": 5},
                connectgaps=True,
                showlegend=False,
            )
        ]
        for column in titles.values()
    }
    figure = make_panels(panels, title=title, axes=[("step", "")] * len(panels), row_height=260)
    return Picture(name, title, caption, *Drawn(figure, data))
