"""Similarities that models give to pairs of sentences (CompCSE, figure 4)."""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.encoded import Embeddings, all_cosines
from cse_dashboards.figures.embeddings.sentences import (
    LacksError,
    Trials,
    dev_name,
    dev_of,
    embeddings_picture,
    sentences_of,
    usual_pairs,
    vectors_of,
)
from cse_dashboards.figures.picture import BETWEEN, ROW, Drawn, Picture, make_panels

MOST_SENTENCES = len(ascii_uppercase)
"""Most sentences, as each is named by a letter."""
LEGIBLE = 10
"""Most sentences for which numbers fit into the cells."""
LINE, LINES = 28, 2
"""Most characters per line, and most lines, of a sentence on an axis; the hover text is full."""


def heat_map(embeddings: Embeddings, trials: Trials, sentences: Sequence[str] = ()) -> Picture:
    """Show the similarities between sentences under each model (CompCSE, figure 4).

    `sentences` are 2 to 26 different ones; by default, three pairs of STS-B dev with high, middle
    and low gold.
    """
    return embeddings_picture(
        "heat_map", "Similarity of sentences", lambda: _make_heat_map(embeddings, trials, sentences)
    )


def _make_heat_map(
    embeddings: Embeddings, trials: Trials, sentences: Sequence[str]
) -> tuple[Drawn, str]:
    caption = "Cosine of each sentence with each other, on one scale of colours"
    tidy = dict.fromkeys(" ".join(sentence.split()) for sentence in sentences)
    chosen = [sentence for sentence in tidy if sentence]
    if not chosen:
        dev = dev_of(embeddings, trials)
        places = usual_pairs(dev)
        chosen = sentences_of(dev, places)
        gold = ", ".join(f"{dev.gold[place]:.1f}" for place in places)
        caption += f"; from A on, two by two, they are pairs of {dev_name(dev)} with gold {gold}"
    if not 2 <= len(chosen) <= MOST_SENTENCES:
        raise LacksError(
            f"a heat map is of 2 to {MOST_SENTENCES} different sentences, and {len(chosen)} came: "
            "name others"
        )
    encoded, absent = vectors_of(embeddings, trials, chosen)
    drawn = draw_heat_map(chosen, {label: all_cosines(v) for label, v in encoded.items()})
    return drawn, f"{caption} (after CompCSE, figure 4).{absent}"


def draw_heat_map(sentences: Sequence[str], cosines: Mapping[str, NDArray[Any]]) -> Drawn:
    """Draw the cosine of every two sentences, with a panel per model (CompCSE, figure 4).

    Cosines have shape (N, N); there are at most 26 different sentences.
    """
    letters = ascii_uppercase[: len(sentences)]
    lowest = min(float(np.min(values)) for values in cosines.values())
    figure = make_panels(
        {name: [_make_cells(name, sentences, values)] for name, values in cosines.items()},
        title="Similarity of sentences",
        x="sentence",
        y="sentence",
        shared_yaxes="all",
        horizontal_spacing=0.04,
        row_height=max(ROW, 38 * len(sentences) + BETWEEN),
        coloraxis={
            "cmin": round(lowest, 4),
            "cmax": 1,
            "colorbar": {"title": {"text": "cosine"}},
        },
    )
    labels = [
        _wrap_lines(f"{n} · {sentence}") for n, sentence in zip(letters, sentences, strict=True)
    ]
    figure.update_xaxes(tickvals=sentences, ticktext=list(letters), showgrid=False)
    figure.update_yaxes(
        tickvals=sentences, ticktext=labels, showgrid=False, autorange="reversed", title_text=None
    )
    figure.update_yaxes(title_text="sentence", col=1)
    records = [
        {"model": name, "sentence": sentence, "other": other, "cosine": values[down, across]}
        for name, values in cosines.items()
        for down, sentence in enumerate(sentences)
        for across, other in enumerate(sentences)
    ]
    return Drawn(figure, pd.DataFrame(records).round(4))


def _make_cells(name: str, sentences: Sequence[str], cosines: NDArray[Any]) -> go.Heatmap:
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


def _wrap_lines(text: str) -> str:
    return "<br>".join(wrap(text, LINE, max_lines=LINES, placeholder="…"))
