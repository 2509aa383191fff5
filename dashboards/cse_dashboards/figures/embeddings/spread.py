"""Spread of sentences over the sphere, models side by side (WhitenedCSE, figure 1)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.encoded import Embeddings, Plane, by_direction, uniformity_of
from cse_dashboards.figures.embeddings.sentences import (
    Trials,
    dev_name,
    dev_of,
    embeddings_picture,
    sentences_in_plane,
    vectors_of,
)
from cse_dashboards.figures.picture import Drawn, Picture, colour, make_panels

CIRCLE = np.linspace(0, 2 * np.pi, 97)
EDGE = 1.05
"""Limit of both axes; the sphere's edge is at 1."""


def spread(embeddings: Embeddings, trials: Trials) -> Picture:
    """Show the sentences of STS-B dev on the unit sphere, a panel per model with its uniformity."""
    return embeddings_picture(
        "spread", "Sentences on the sphere", lambda: _make_spread(embeddings, trials)
    )


def _make_spread(embeddings: Embeddings, trials: Trials) -> tuple[Drawn, str]:
    dev = dev_of(embeddings, trials)
    shown = sentences_in_plane(dev)
    encoded, absent = vectors_of(embeddings, trials, shown)
    planes = {label: by_direction(vectors) for label, vectors in encoded.items()}
    measured = {label: uniformity_of(vectors) for label, vectors in encoded.items()}
    return draw_spread(shown, planes, measured), (
        f"{len(shown)} sentences of {dev_name(dev)}, brought to length 1 and seen along the two "
        "directions in which they lie most; nothing is centred. Vectors in a narrow cone are a "
        "spot beside the centre, even ones surround it. The uniformity is the lower, the more "
        f"evenly they spread (after WhitenedCSE, figure 1, a to c).{absent}"
    )


def draw_spread(
    sentences: Sequence[str], planes: Mapping[str, Plane], measured: Mapping[str, float]
) -> Drawn:
    """Draw a panel per model within the sphere's outline, titled with the uniformity.

    Source:
        Zhuo et al. 2023 (WhitenedCSE), figure 1.
    """
    panels = {
        f"{name}, uniformity {measured[name]:.2f}": [
            _make_outline(),
            _make_points(name, sentences, plane),
        ]
        for name, plane in planes.items()
    }
    figure = make_panels(panels, title="Sentences on the sphere", x="", y="", showlegend=False)
    axes = zip(figure.select_xaxes(), figure.select_yaxes(), planes.values(), strict=False)
    for across, down, plane in axes:
        across.title.text, down.title.text = plane.axes
    for axes_of in (figure.update_xaxes, figure.update_yaxes):
        axes_of(range=[-EDGE, EDGE], zeroline=True)
    data = pd.concat(
        pd.DataFrame(
            {
                "model": name,
                "uniformity": measured[name],
                "sentence": sentences,
                "x": plane.points[:, 0],
                "y": plane.points[:, 1],
            }
        )
        for name, plane in planes.items()
    )
    return Drawn(figure, data.round(4))


def _make_outline() -> go.Scatter:
    return go.Scatter(
        x=np.cos(CIRCLE).round(4),
        y=np.sin(CIRCLE).round(4),
        mode="lines",
        line={"color": "rgba(138,138,138,0.5)", "width": 1},
        hoverinfo="skip",
    )


def _make_points(name: str, sentences: Sequence[str], plane: Plane) -> Any:
    return go.Scatter(
        name=name,
        x=np.round(plane.points[:, 0], 4),
        y=np.round(plane.points[:, 1], 4),
        mode="markers",
        marker={"size": 4, "opacity": 0.6, "color": colour(0)},
        text=list(sentences),
        hovertemplate="%{text}<extra></extra>",
    )
