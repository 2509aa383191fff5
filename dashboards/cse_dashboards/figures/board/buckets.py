"""Distribution of cosines within buckets of gold scores (RankCSE, figure 5)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.figures import labels
from cse_dashboards.figures.picture import Drawn, Picture, fade, make_panels
from cse_methods.evaluation.measures.buckets import in_buckets
from cse_methods.evaluation.results import Examples
from cse_methods.names import task_name
from cse_platform.errors import QueryError
from cse_platform.leaderboard.api import Leaderboard


def buckets(reader: Leaderboard, rows: labels.Rows, task: str = "stsb") -> Picture:
    """Show the distribution of cosines by gold score on an STS task.

    Each row is represented by its best seed on dev among those scored on the task.
    """
    labelled, left = labels.first_rows(rows)
    scored: dict[str, Examples] = {}
    for label, row in labelled.items():
        if (trial := labels.best_scored_trial(row, task)) is not None:
            with suppress(QueryError):  # imported scores have no stored cosines
                scored[label] = reader.examples(trial, task)
    pairs = next((examples.data_sha256 for examples in scored.values()), None)
    comparable = {
        label: cosines for label, cosines in scored.items() if cosines.data_sha256 == pairs
    }
    first = next(iter(comparable), "")
    name, title = f"buckets_{task}", f"Cosines by gold score, {task_name(task)}"
    caption = (
        "Density of the cosines of the test pairs whose gold score lies between two grades, with "
        "their mean; each method by its best scored seed on dev. RankCSE's figure 5 is of STS-B "
        "dev, and is among the figures of embeddings."
        + labels.left_out(labelled, scored, f"cosines on {task}")
        + labels.left_out(scored, comparable, f"the pairs that {first} was scored on")
        + left
    )
    if not comparable:
        how = f"`evaluate: {{tasks: [sts]}}` {labels.TO_EVALUATE} sts"
        why = f"no cosines on {task} of these rows: {how}"
        return Picture(name, title, caption, missing=why)
    pairs_by_label = {
        label: (pairs.values, pairs.gold)
        for label, pairs in comparable.items()
        if pairs.gold is not None
    }
    drawn = draw_buckets(pairs_by_label, labels.row_styles(labelled), title=f"{title} test")
    return Picture(name, title, caption, *drawn)


def draw_buckets(
    pairs: Mapping[str, tuple[NDArray[Any], NDArray[Any]]],
    styles: Mapping[str, labels.Style],
    *,
    title: str,
) -> Drawn:
    """Draw a panel for each method: the density of the cosines in each bucket of gold scores.

    Pairs are given by label, as their cosines and gold scores. The line within a ridge is the
    bucket's mean.
    """
    panels: dict[str, list[go.Violin]] = {label: [] for label in pairs}
    parts = []
    for label, (cosines, gold) in pairs.items():
        for bucket, inside in in_buckets(gold).items():
            values, style = cosines[inside].round(4), styles[label]
            part = {"method": label, "gold score": bucket, "cosine": values}
            parts.append(pd.DataFrame(part))
            panels[label].append(
                go.Violin(
                    name=label,
                    x=values.tolist(),
                    y=[bucket] * len(values),
                    orientation="h",
                    side="positive",
                    width=1.7,
                    points=False,
                    meanline_visible=True,
                    line={"color": style.colour, "width": 1.2},
                    fillcolor=fade(style.colour, 0.4),
                    spanmode="hard",
                    hoverinfo="x+y",
                )
            )
    figure = make_panels(
        panels,
        title=title,
        axes=[("cosine", "" if index else "gold score") for index in range(len(panels))],
        shared_yaxes="all",
        horizontal_spacing=0.06,
        showlegend=False,
        violingap=0,
        violinmode="overlay",
    )
    # All axes match the first; the first must not match itself, which warns in the browser.
    figure.update_xaxes(matches="x").update_layout(xaxis_matches=None)
    return Drawn(figure, pd.concat(parts))
