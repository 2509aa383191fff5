"""How similar models find sentences to each other."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.figures.look import SCALE
from cse_dashboards.figures.panels import BETWEEN, ROW, panelled

LEGIBLE = 10
"""Sentences up to which the numbers fit into the cells."""
LINE, LINES = 28, 2
"""Letters and lines of a sentence on an axis; the hover has it whole."""


def heat_map(sentences: Sequence[str], cosines: Mapping[str, NDArray[Any]]) -> go.Figure:
    """The cosine of each sentence with each other, a panel a model, on one scale of colours.

    Args:
        sentences: N different ones, at most 26.
        cosines: by model, shape (N, N), in [-1, 1].

    Source:
        Chanchani and Huang 2023 (CompCSE), figure 4.
    """
    letters = ascii_uppercase[: len(sentences)]
    lowest = min(float(np.min(values)) for values in cosines.values())
    figure = panelled(
        {name: [_cells(name, sentences, values)] for name, values in cosines.items()},
        title="Similarity of sentences",
        x="sentence",
        y="sentence",
        shared_yaxes="all",
        horizontal_spacing=0.04,
        row_height=max(ROW, 38 * len(sentences) + BETWEEN),
        coloraxis={
            "colorscale": SCALE,
            "cmin": round(lowest, 4),
            "cmax": 1,
            "colorbar": {"title": {"text": "cosine"}},
        },
    )
    labels = [_in_lines(f"{n} · {one}") for n, one in zip(letters, sentences, strict=True)]
    figure.update_xaxes(tickvals=sentences, ticktext=list(letters), showgrid=False)
    figure.update_yaxes(
        tickvals=sentences,
        ticktext=labels,
        showgrid=False,
        autorange="reversed",
        title_text=None,
    )
    return figure.update_yaxes(title_text="sentence", col=1)


def _cells(name: str, sentences: Sequence[str], cosines: NDArray[Any]) -> go.Heatmap:
    return go.Heatmap(
        name=name,
        x=list(sentences),
        y=list(sentences),
        z=np.round(cosines, 4).tolist(),
        coloraxis="coloraxis",
        texttemplate="%{z:.2f}" if len(sentences) <= LEGIBLE else None,
        xgap=1,
        ygap=1,
        customdata=[[[down, across] for across in sentences] for down in sentences],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>cosine %{z:.3f}",
    )


def _in_lines(text: str) -> str:
    return "<br>".join(wrap(text, LINE, max_lines=LINES, placeholder="…"))
