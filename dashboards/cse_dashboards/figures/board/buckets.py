"""Distribution of cosines within buckets of gold scores (RankCSE, figure 5)."""

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.figures.labels import (
    TO_EVALUATE,
    Rows,
    Style,
    best_scored_trial,
    first_rows,
    left_out,
    row_styles,
)
from cse_dashboards.figures.picture import Drawn, Picture, make_panels
from cse_methods.evaluation.measures.buckets import in_buckets
from cse_methods.evaluation.results import Similarities
from cse_methods.names import task_name
from cse_platform.errors import QueryError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.records import LeaderboardRow


def buckets(reader: Leaderboard, rows: Rows, task: str = "stsb") -> Picture:
    """Show the distribution of cosines by gold score on an STS task.

    Each row is represented by its best seed on dev among those scored on the task.
    """
    labelled, left = first_rows(rows)
    scored = _read_similarities(reader, labelled, task)
    pairs = next((similarities.data_sha256 for similarities in scored.values()), None)
    comparable = {
        label: cosines for label, cosines in scored.items() if cosines.data_sha256 == pairs
    }
    name, title = f"buckets_{task}", f"Cosines by gold score, {task_name(task)}"
    caption = (
        "Density of the cosines of the test pairs whose gold score lies between two grades, with "
        "their mean; each method by its best scored seed on dev. RankCSE's figure 5 is of STS-B "
        "dev, and is among the figures of embeddings."
        + left_out(labelled, scored, f"cosines on {task}")
        + left_out(scored, comparable, f"the pairs that {next(iter(comparable), '')} was scored on")
        + left
    )
    if not comparable:
        why = f"no cosines on {task} of these rows: `evaluate: {{tasks: [sts]}}` {TO_EVALUATE} sts"
        return Picture(name, title, caption, missing=why)
    return Picture(name, title, caption, *draw_buckets(comparable, row_styles(labelled)))


def _read_similarities(
    reader: Leaderboard, labelled: Mapping[str, LeaderboardRow], task: str
) -> dict[str, Similarities]:
    similarities = {}
    for label, row in labelled.items():
        if (trial := best_scored_trial(row, task)) is not None:
            with suppress(QueryError):  # imported scores have no stored cosines
                similarities[label] = reader.similarities(trial, task)
    return similarities


def draw_buckets(similarities: Mapping[str, Similarities], styles: Mapping[str, Style]) -> Drawn:
    """Draw a panel for each method: the density of the cosines in each bucket of gold scores.

    The line within a ridge is the bucket's mean.
    """
    cosines = {
        (label, bucket): one.cosines[inside].round(4)
        for label, one in similarities.items()
        for bucket, inside in in_buckets(one.gold).items()
    }
    data = pd.DataFrame(
        [
            {"method": label, "gold score": bucket, "cosine": value}
            for (label, bucket), values in cosines.items()
            for value in values
        ],
        columns=["method", "gold score", "cosine"],
    )
    panels: dict[str, list[go.Violin]] = {label: [] for label in similarities}
    for (label, bucket), values in cosines.items():
        panels[label].append(_make_ridge(label, bucket, values, styles[label]))
    some = next(iter(similarities.values()))
    figure = make_panels(
        panels,
        title=f"Cosines by gold score, {task_name(some.task)} {some.split}",
        x="cosine",
        y="gold score",
        shared_yaxes="all",
        horizontal_spacing=0.06,
        showlegend=False,
        violingap=0,
        violinmode="overlay",
    )
    # All axes match the first; the first must not match itself, which warns in the browser.
    figure.update_xaxes(matches="x").update_layout(xaxis_matches=None)
    return Drawn(figure, data)


def _make_ridge(label: str, bucket: str, cosines: NDArray[np.float32], style: Style) -> go.Violin:
    values = list(cosines)
    return go.Violin(
        name=label,
        x=values,
        y=[bucket] * len(values),
        orientation="h",
        side="positive",
        width=1.7,
        points=False,
        meanline_visible=True,
        line={"color": style.colour, "width": 1.2},
        fillcolor=style.faded(0.4),
        spanmode="hard",
        hoverinfo="x+y",
    )
