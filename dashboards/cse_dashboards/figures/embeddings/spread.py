"""Spread of sentences over the sphere, models side by side (WhitenedCSE, figure 1)."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.encoded import Array, Embeddings, Plane, uniformity_of, unit
from cse_dashboards.figures.embeddings.sentences import (
    POINTS,
    Trials,
    dev_name,
    dev_of,
    some_of,
    vectors_of,
)
from cse_dashboards.figures.picture import Drawn, colour, make_panels

CIRCLE = np.linspace(0, 2 * np.pi, 97)
EDGE = 1.05
"""Limit of both axes; the sphere's edge is at 1."""


def spread(embeddings: Embeddings, trials: Trials) -> tuple[Drawn, str]:
    """Draw the sentences of STS-B dev on the unit sphere, a panel per model with its uniformity.

    Source:
        Zhuo et al. 2023 (WhitenedCSE), figure 1.
    """
    dev = dev_of(embeddings, trials)
    shown = some_of([*dev.first, *dev.second], POINTS)
    encoded, absent = vectors_of(embeddings, trials, shown)
    caption = (
        f"{len(shown)} sentences of {dev_name(dev)}, brought to length 1 and seen along the two "
        "directions in which they lie most; nothing is centred. Vectors in a narrow cone are a "
        "spot beside the centre, even ones surround it. The uniformity is the lower, the more "
        f"evenly they spread (after WhitenedCSE, figure 1, a to c).{absent}"
    )
    outline = go.Scatter(
        x=np.cos(CIRCLE).round(4),
        y=np.sin(CIRCLE).round(4),
        mode="lines",
        line={"color": "rgba(138,138,138,0.5)", "width": 1},
        hoverinfo="skip",
    )
    panels, axes, parts = {}, [], []
    for name, vectors in encoded.items():
        plane, measured = by_direction(vectors), uniformity_of(vectors)
        part = pd.DataFrame(plane.points.round(4), columns=["x", "y"])
        points = go.Scatter(
            name=name,
            x=part["x"],
            y=part["y"],
            mode="markers",
            marker={"size": 4, "opacity": 0.6, "color": colour(0)},
            text=shown,
            hovertemplate="%{text}<extra></extra>",
        )
        panels[f"{name}, uniformity {measured:.2f}"] = [outline, points]
        axes.append(plane.axes)
        parts.append(part.assign(model=name, uniformity=round(measured, 4), sentence=shown))
    figure = make_panels(panels, title="Sentences on the sphere", axes=axes, showlegend=False)
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(range=[-EDGE, EDGE], zeroline=True)
    columns = ["model", "uniformity", "sentence", "x", "y"]
    return Drawn(figure, pd.concat(parts)[columns]), caption


def by_direction(vectors: Array) -> Plane:
    """Project normalised vectors onto the two main axes of their second moments, without centring.

    The mean is on the positive side of both axes, and points lie in the unit circle. Vectors have
    shape (N, D), D >= 2.
    """
    lengths_one = unit(vectors)
    shares, axes = np.linalg.eigh(lengths_one.T @ lengths_one / len(lengths_one))
    points = lengths_one @ axes[:, [-1, -2]]
    points *= np.where(points.mean(axis=0) < 0, -1, 1)
    first, second = (f"direction {n}, {shares[-n]:.1%} of length²" for n in (1, 2))
    return Plane(points, (first, second))
