"""Sentences in a plane, coloured by their length (CompCSE, figure 5)."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.encoded import Embeddings, by_pca, by_umap
from cse_dashboards.figures.embeddings.sentences import (
    LacksError,
    Trials,
    dev_name,
    dev_of,
    embeddings_picture,
    sentences_in_plane,
    vectors_of,
)
from cse_dashboards.figures.picture import Drawn, Picture, colour, make_panels

SHORT_TO_LONG = [[0, colour(0)], [0.4, colour(1)], [1, colour(5)]]
"""Colours that are visible on a light and on a dark page."""
By = Literal["pca", "umap"]
Points = NDArray[Any]
"""Shape (N, 2)."""


def projection(embeddings: Embeddings, trials: Trials, *, by: By = "pca") -> Picture:
    """Show the sentences of STS-B dev in a plane under each model; `umap` needs an extra."""
    return embeddings_picture(
        f"projection_{by}",
        f"Sentences by length, {by.upper()}",
        lambda: _make_projection(embeddings, trials, by),
    )


def _make_projection(embeddings: Embeddings, trials: Trials, by: By) -> tuple[Drawn, str]:
    if by == "umap" and find_spec("umap") is None:
        raise LacksError("UMAP is not installed: pip install 'cse-platform[umap]', or ask for PCA")
    dev = dev_of(embeddings, trials)
    shown = sentences_in_plane(dev)
    encoded, absent = vectors_of(embeddings, trials, shown)
    planes = {label: (by_umap if by == "umap" else by_pca)(v) for label, v in encoded.items()}
    drawn = draw_projection(shown, [len(sentence.split()) for sentence in shown], planes)
    total = len({*dev.first, *dev.second})
    many = f"All {total}" if total == len(shown) else f"{len(shown)} of the {total}"
    return drawn, (
        f"{many} sentences of {dev_name(dev)} in two dimensions by cosine, coloured by their "
        "number of words; where short ones lie together, length was learned (after CompCSE, "
        "figure 5)."
        f"{absent}"
    )


def draw_projection(
    sentences: Sequence[str],
    lengths: Sequence[int],
    planes: Mapping[str, tuple[Points, tuple[str, str]]],
) -> Drawn:
    """Draw the sentences' positions, coloured by length, with a panel per model."""
    figure = make_panels(
        {
            name: [_make_points(name, sentences, lengths, points)]
            for name, (points, _) in planes.items()
        },
        title="Sentences by length",
        x="",
        y="",
        showlegend=False,
        coloraxis={"colorscale": SHORT_TO_LONG, "colorbar": {"title": {"text": "words"}}},
    )
    panels = zip(figure.select_xaxes(), figure.select_yaxes(), planes.values(), strict=False)
    for across, down, (_, (x, y)) in panels:
        across.title.text, down.title.text = x, y
    figure.update_xaxes(zeroline=False).update_yaxes(zeroline=False)
    data = pd.concat(
        pd.DataFrame(
            {
                "model": name,
                "sentence": sentences,
                "words": lengths,
                "x": points[:, 0],
                "y": points[:, 1],
            }
        )
        for name, (points, _) in planes.items()
    )
    return Drawn(figure, data.round(4))


def _make_points(name: str, sentences: Sequence[str], lengths: Sequence[int], at: Points) -> Any:
    return go.Scatter(
        name=name,
        x=np.round(at[:, 0], 4),
        y=np.round(at[:, 1], 4),
        mode="markers",
        marker={"size": 5, "opacity": 0.7, "color": list(lengths), "coloraxis": "coloraxis"},
        text=list(sentences),
        hovertemplate="%{text}<br>%{marker.color} words<extra></extra>",
    )
