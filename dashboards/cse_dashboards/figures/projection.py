"""Sentences in a plane, by how long they are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.figures.look import colour
from cse_dashboards.figures.panels import panelled

SHORT_TO_LONG = [[0, colour(0)], [0.4, colour(1)], [1, colour(5)]]
"""None of them fades into a light or a dark page."""
Points = NDArray[Any]
"""Shape (N, 2)."""


def projection(
    sentences: Sequence[str],
    lengths: Sequence[int],
    planes: Mapping[str, tuple[Points, tuple[str, str]]],
) -> go.Figure:
    """Where each model puts the sentences, a panel a model, coloured by length.

    Args:
        sentences: N of them.
        lengths: in words.
        planes: by model, the points and the names of their two axes.

    Source:
        Chanchani and Huang 2023 (CompCSE), figure 5.
    """
    figure = panelled(
        {name: [_points(name, sentences, lengths, one)] for name, (one, _) in planes.items()},
        title="Sentences by length",
        x="",
        y="",
        showlegend=False,
        coloraxis={"colorscale": SHORT_TO_LONG, "colorbar": {"title": {"text": "words"}}},
    )
    panels = zip(figure.select_xaxes(), figure.select_yaxes(), planes.values(), strict=False)
    for across, down, (_, (x, y)) in panels:
        across.title.text, down.title.text = x, y
    return figure.update_xaxes(zeroline=False).update_yaxes(zeroline=False)


def _points(name: str, sentences: Sequence[str], lengths: Sequence[int], at: Points) -> Any:
    return go.Scatter(
        name=name,
        x=np.round(at[:, 0], 4),
        y=np.round(at[:, 1], 4),
        mode="markers",
        marker={"size": 5, "opacity": 0.7, "color": list(lengths), "coloraxis": "coloraxis"},
        text=list(sentences),
        hovertemplate="%{text}<br>%{marker.color} words<extra></extra>",
    )
