"""Cosines of the same pairs under two methods, against each other."""

import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.figures.labels import TO_EVALUATE, best_scored_trial, labelled_rows
from cse_dashboards.figures.picture import Picture, colour, make_figure
from cse_methods.evaluation.results import Examples
from cse_methods.names import task_name
from cse_platform.errors import QueryError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.records import LeaderboardRow


def pair_scatter(
    reader: Leaderboard, row_a: LeaderboardRow, row_b: LeaderboardRow, task: str
) -> Picture:
    """Plot the cosine of every pair of an STS task under one row against that under another.

    Each row is represented by its best seed on dev among those scored on the task.
    """
    caption = (
        "Every test pair, each method by its best scored seed on dev; the diagonal: both alike."
    )
    name, title = f"pairs_{task}", f"Pairs of {task_name(task)}"
    labelled = labelled_rows([row_a, row_b])
    examples: list[Examples] = []
    for row in labelled.values():
        if (trial := best_scored_trial(row, task)) is None:
            how = f"`evaluate: {{tasks: [{task}]}}` {TO_EVALUATE} {task}"
            why = f"{row.method} has no score on {task}: {how}"
            return Picture(name, title, caption, missing=why)
        try:
            examples.append(reader.examples(trial, task))
        except QueryError as error:
            return Picture(name, title, caption, missing=str(error))
    (a, b), (first, second) = labelled, examples
    if first.statistic != "spearman":
        return Picture(name, title, caption, missing=f"the score of {task} is no correlation")
    if first.data_sha256 != second.data_sha256:
        why = f"{a} and {b} were scored on different pairs of {task}; score both with cse-evaluate"
        return Picture(name, title, caption, missing=why)
    x, y = f"cosine, {a}", f"cosine, {b}"
    data = pd.DataFrame(
        {x: first.values.round(4), y: second.values.round(4), "gold score": first.gold}
    )
    marker = {
        "size": 5,
        "opacity": 0.75,
        "color": data["gold score"],
        "colorbar": {"title": {"text": "gold score"}},
        "line": {"width": 0.7, "color": colour(6)},
    }
    hover = "%{x:.3f}, %{y:.3f}, gold %{marker.color:.2f}<extra></extra>"
    points = go.Scatter(
        name="pairs", x=data[x], y=data[y], mode="markers", marker=marker, hovertemplate=hover
    )
    figure = make_figure(points, title=f"{title} {first.split}", x=x, y=y, height=600)
    low = float(min(first.values.min(), second.values.min()))
    line = {"color": colour(6), "dash": "dot", "width": 1}
    figure.add_shape(type="line", x0=low, y0=low, x1=1, y1=1, layer="below", line=line)
    return Picture(name, title, caption, figure, data)
