"""How far one method is above another, task by task."""

from collections.abc import Sequence

import plotly.graph_objects as go

from cse_dashboards.figures.look import colour, drawn
from cse_dashboards.figures.naming import TASKS, score_quantity
from cse_platform.leaderboard.statistics.results import Comparison, TaskComparison
from cse_platform.render.formats import probability


def differences(comparison: Comparison) -> go.Figure:
    """Mean of A minus mean of B with its 95 % interval, and Holm's p beside it.

    The average over the tasks, the lowest line, has the p of a single test. A marker is hollow
    where the interval holds zero, or is not known.
    """
    tasks = [*comparison.tasks, *([comparison.average] if comparison.average else [])]
    metrics = {score_quantity(one.task).title.rpartition(", ")[2] for one in tasks}
    unit = metrics.pop() if len(metrics) == 1 else "× 100"
    figure = drawn(
        _effects(tasks, comparison),
        title=f"{comparison.a} minus {comparison.b}",
        x=f"{comparison.a} minus {comparison.b}, {unit}",
        y="",
        height=180 + 32 * len(tasks),
        margin_r=110,
    )
    figure.add_vline(x=0, line={"width": 1, "color": colour(6)})
    for task in tasks:
        figure.add_annotation(
            {"xref": "paper", "x": 1.01, "xanchor": "left", "y": _name(task), "showarrow": False},
            text=f"p {probability(_p(task, comparison)) or 'unknown'}",
        )
    return figure.update_yaxes(autorange="reversed")


def _effects(tasks: Sequence[TaskComparison], comparison: Comparison) -> go.Scatter:
    up = [None if one.interval is None else one.interval.high - one.effect for one in tasks]
    down = [None if one.interval is None else one.effect - one.interval.low for one in tasks]
    return go.Scatter(
        name=f"{comparison.a} minus {comparison.b}",
        x=[100 * one.effect for one in tasks],
        y=[_name(one) for one in tasks],
        error_x={"array": _percent(up), "arrayminus": _percent(down), "thickness": 1.5, "width": 5},
        customdata=[[100 * one.mean_a, 100 * one.mean_b, _p(one, comparison)] for one in tasks],
        meta=(comparison.a, comparison.b, "p"),
        mode="markers",
        marker={
            "size": 10,
            "color": colour(0),
            "symbol": ["circle" if _apart(one) else "circle-open" for one in tasks],
        },
        hovertemplate=(
            "%{y}: %{x:+.2f}<br>A %{customdata[0]:.2f}, B %{customdata[1]:.2f}, "
            "p %{customdata[2]:.3f}<extra></extra>"
        ),
    )


def _name(task: TaskComparison) -> str:
    name, _, metric = task.task.rpartition("_")
    known = TASKS.get(task.task)
    return known or f"{TASKS.get(name, name)} {metric.upper()}"


def _p(task: TaskComparison, comparison: Comparison) -> float | None:
    """Corrected over the tasks; the average is one test."""
    return task.p if task is comparison.average else task.p_holm


def _apart(task: TaskComparison) -> bool:
    return task.interval is not None and not task.interval.low <= 0 <= task.interval.high


def _percent(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else 100 * value for value in values]
