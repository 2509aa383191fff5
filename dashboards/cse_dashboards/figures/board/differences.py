"""Differences between two methods, task by task."""

from math import nan

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import score_quantity
from cse_dashboards.figures.picture import Picture, colour, make_figure, replace_missing
from cse_methods.names import TASKS, task_name
from cse_platform.leaderboard.families import RANKING_METRICS, task_of
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.numbers import probability
from cse_platform.presentation.comparison import describe_limits


def differences(comparison: Comparison) -> Picture:
    """Show the mean of A minus that of B with its 95 % interval, and Holm's p beside it.

    The lowest line is the average over the tasks, with the uncorrected p of its single test. A
    marker is hollow if its interval contains zero or is unknown.
    """
    caption = (
        "Difference of the means over seeds, with the 95 % interval of the paired bootstrap; p "
        "is two-sided that there is no difference, by Holm's correction over the tasks; the "
        "average is one test. Hollow: the interval includes zero, or is unknown."
        + "".join(f" {note}" for note in describe_limits(comparison))
    )
    tasks = [*comparison.tasks, *([comparison.average] if comparison.average else [])]
    metrics = {score_quantity(task.task).title.rpartition(", ")[2] for task in tasks}
    unit = metrics.pop() if len(metrics) == 1 else "× 100"
    name = f"{comparison.a} minus {comparison.b}"
    records = []
    for task in tasks:
        about = task_of(task.task)
        metric = task.task.removeprefix(about).removeprefix("_")
        shown = metric.upper() if metric in RANKING_METRICS else metric
        label = TASKS.get(task.task) or f"{task_name(about)} {shown}".rstrip()
        ends = (task.interval.low, task.interval.high) if task.interval else (nan, nan)
        effects = (100 * value for value in (task.effect, *ends, task.mean_a, task.mean_b))
        # Corrected over the tasks; the average is one test.
        records.append((label, *effects, task.p if task is comparison.average else task.p_holm))
    data = pd.DataFrame(records, columns=["task", "difference", "low", "high", "a", "b", "p"])
    effect, low, high = (data[c].astype(float) for c in ("difference", "low", "high"))
    sure = (low > 0) | (high < 0)
    markers = go.Scatter(
        name=name,
        x=effect.tolist(),
        y=data["task"].tolist(),
        error_x={
            "array": replace_missing(high - effect),
            "arrayminus": replace_missing(effect - low),
            "thickness": 1.5,
            "width": 5,
        },
        customdata=data[["a", "b", "p"]].to_numpy().tolist(),
        mode="markers",
        marker={
            "size": 10,
            "color": colour(0),
            "symbol": ["circle" if is_sure else "circle-open" for is_sure in sure],
        },
        hovertemplate=(
            "%{y}: %{x:+.2f}<br>A %{customdata[0]:.2f}, B %{customdata[1]:.2f}, "
            "p %{customdata[2]:.3f}<extra></extra>"
        ),
    )
    size = {"height": 180 + 32 * len(tasks), "margin_r": 110}
    figure = make_figure(markers, title=name, x=f"{name}, {unit}", y="", **size)
    figure.add_vline(x=0, line={"width": 1, "color": colour(6)})
    for task, p in zip(data["task"], replace_missing(data["p"]), strict=True):
        figure.add_annotation(
            {"xref": "paper", "x": 1.01, "xanchor": "left", "y": task, "showarrow": False},
            text=f"p {probability(p) or 'unknown'}",
        )
    figure.update_yaxes(autorange="reversed")
    columns = {"a": comparison.a, "b": comparison.b, "difference": f"{name}, {unit}"}
    title = f"{comparison.a} against {comparison.b}"
    return Picture("differences", title, caption, figure, data.rename(columns=columns))
