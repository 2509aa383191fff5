"""Sentences in a plane, coloured by their length (CompCSE, figure 5)."""

from importlib.util import find_spec
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.encoded import Array, Embeddings, Plane, by_pca, unit
from cse_dashboards.figures.embeddings.sentences import (
    POINTS,
    LacksError,
    Trials,
    dev_name,
    dev_of,
    some_of,
    vectors_of,
)
from cse_dashboards.figures.picture import Drawn, colour, make_panels

SHORT_TO_LONG = [[0, colour(0)], [0.4, colour(1)], [1, colour(5)]]
"""Colours that are visible on a light and on a dark page."""
By = Literal["pca", "umap"]


def projection(embeddings: Embeddings, trials: Trials, by: By) -> tuple[Drawn, str]:
    """Draw the sentences of STS-B dev in a plane under each model, coloured by length.

    `umap` needs an extra.
    """
    if by == "umap" and find_spec("umap") is None:
        raise LacksError("UMAP is not installed: pip install 'cse-platform[umap]', or ask for PCA")
    dev = dev_of(embeddings, trials)
    shown, total = some_of([*dev.first, *dev.second], POINTS), len({*dev.first, *dev.second})
    encoded, absent = vectors_of(embeddings, trials, shown)
    planes = {label: (_by_umap if by == "umap" else by_pca)(v) for label, v in encoded.items()}
    many = f"All {total}" if total == len(shown) else f"{len(shown)} of the {total}"
    caption = (
        f"{many} sentences of {dev_name(dev)} in two dimensions by cosine, coloured by their "
        "number of words; where short ones lie together, length was learned (after CompCSE, "
        "figure 5)."
        f"{absent}"
    )
    parts = {
        name: pd.DataFrame(plane.points.round(4), columns=["x", "y"]).assign(
            model=name, sentence=shown, words=[len(sentence.split()) for sentence in shown]
        )
        for name, plane in planes.items()
    }
    panels = {
        name: [
            go.Scatter(
                name=name,
                x=part["x"],
                y=part["y"],
                mode="markers",
                marker={
                    "size": 5,
                    "opacity": 0.7,
                    "color": part["words"],
                    "coloraxis": "coloraxis",
                },
                text=part["sentence"],
                hovertemplate="%{text}<br>%{marker.color} words<extra></extra>",
            )
        ]
        for name, part in parts.items()
    }
    figure = make_panels(
        panels,
        title="Sentences by length",
        axes=[plane.axes for plane in planes.values()],
        showlegend=False,
        coloraxis={"colorscale": SHORT_TO_LONG, "colorbar": {"title": {"text": "words"}}},
    )
    figure.update_xaxes(zeroline=False).update_yaxes(zeroline=False)
    columns = ["model", "sentence", "words", "x", "y"]
    return Drawn(figure, pd.concat(parts.values())[columns]), caption


def _by_umap(vectors: Array) -> Plane:
    """Project vectors to a plane with UMAP, which keeps neighbours by cosine; deterministic.

    The axes have no meaning of their own. N must be well above UMAP's 15 neighbours.

    Raises:
        ImportError: if `umap-learn` is not installed.

    Source:
        McInnes et al. 2018, with the library's own settings.
    """
    from umap import UMAP

    # One job: with more, UMAP is not deterministic, whatever the seed.
    points = UMAP(metric="cosine", random_state=0, n_jobs=1).fit_transform(unit(vectors))
    return Plane(np.asarray(points, dtype=np.float64), ("UMAP 1, no unit", "UMAP 2, no unit"))
