"""Embeddings, and the positives of some sentences, before and after whitening."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.figures.look import colour
from cse_dashboards.figures.panels import panelled, short


@dataclass(frozen=True, eq=False)
class Spread:
    """One side of the figure, before or after."""

    background: NDArray[Any]
    """All sentences in the plane, shape (N, 2)."""
    positives: Mapping[str, NDArray[Any]]
    """Of some of the sentences, shape (m, 2) in the same plane."""
    axes: tuple[str, str]
    """What the plane's two numbers are."""
    distances: NDArray[Any]
    """Mean cosine distance of the positives of one sentence, shape (N,)."""
    others: float
    """The same of different sentences."""


def diversity(sides: Mapping[str, Spread]) -> go.Figure:
    """Planes of all sentences with the positives of some, then how far apart positives are.

    Args:
        sides: by name, before and after.

    Source:
        Zhuo et al. 2023 (WhitenedCSE), figure 1.
    """
    planes = {name: _plane(side, legend=not n) for n, (name, side) in enumerate(sides.items())}
    figure = panelled(
        {**planes, "Diversity": _bars(sides)},
        title="Positives before and after whitening",
        x="embeddings",
        y="mean cosine distance",
        barmode="group",
        legend={"orientation": "h", "y": -0.2},
    )
    axes = zip(figure.select_xaxes(), figure.select_yaxes(), sides.values(), strict=False)
    for across, down, side in axes:
        across.update(title_text=side.axes[0], zeroline=False)
        down.update(title_text=side.axes[1], zeroline=False)
    return figure


def _plane(side: Spread, *, legend: bool) -> list[Any]:
    behind = go.Scatter(
        name="all sentences",
        x=np.round(side.background[:, 0], 4),
        y=np.round(side.background[:, 1], 4),
        mode="markers",
        marker={"size": 4, "color": "rgba(138,138,138,0.35)"},
        hoverinfo="skip",
        legendgroup="all",
        showlegend=legend,
    )
    return [behind] + [
        go.Scatter(
            name=short(sentence, 40),
            x=np.round(points[:, 0], 4),
            y=np.round(points[:, 1], 4),
            mode="markers",
            marker={"size": 9, "color": colour(place), "symbol": "diamond"},
            hovertemplate=f"positive of<br>{sentence}<extra></extra>",
            legendgroup=sentence,
            showlegend=legend,
        )
        for place, (sentence, points) in enumerate(side.positives.items())
    ]


def _bars(sides: Mapping[str, Spread]) -> list[Any]:
    names = list(sides)
    own = go.Bar(
        name="positives of one sentence",
        x=names,
        y=[float(np.mean(side.distances)) for side in sides.values()],
        error_y={"array": [float(np.std(side.distances, ddof=1)) for side in sides.values()]},
        marker_color=colour(6),
        texttemplate="%{y:.3f}",
        textposition="inside",
        insidetextanchor="start",
    )
    others = go.Bar(
        name="different sentences",
        x=names,
        y=[side.others for side in sides.values()],
        marker_color=colour(7),
        texttemplate="%{y:.3f}",
        textposition="inside",
        insidetextanchor="start",
    )
    return [own, others]
