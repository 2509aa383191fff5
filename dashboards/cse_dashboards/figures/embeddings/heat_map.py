"""Similarities that models give to pairs of sentences (CompCSE, figure 4)."""

from collections.abc import Sequence
from string import ascii_uppercase
from textwrap import wrap

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from cse_dashboards.encoded import Array, Embeddings, unit
from cse_dashboards.figures.embeddings.sentences import (
    LacksError,
    Trials,
    dev_name,
    dev_of,
    differing_pairs,
    spread_by_gold,
    vectors_of,
)
from cse_dashboards.figures.picture import BETWEEN, ROW, Drawn, make_panels

MOST_SENTENCES = len(ascii_uppercase)
"""Most sentences, as each is named by a letter."""
USUAL_PAIRS = 3
"""Number of dev pairs if no sentences are given."""
LEGIBLE = 10
"""Most sentences for which numbers fit into the cells."""
LINE, LINES = 28, 2
"""Most characters per line, and most lines, of a sentence on an axis; the hover text is full."""


def heat_map(embeddings: Embeddings, trials: Trials, sentences: Sequence[str]) -> tuple[Drawn, str]:
    """Draw the similarities between sentences under each model (CompCSE, figure 4).

    `sentences` are 2 to 26 different ones; if there are none, three pairs of STS-B dev with high,
    middle and low gold.
    """
    caption = "Cosine of each sentence with each other, on one scale of colours"
    tidy = dict.fromkeys(" ".join(sentence.split()) for sentence in sentences)
    chosen = [sentence for sentence in tidy if sentence]
    if not chosen:
        dev = dev_of(embeddings, trials)
        indices = spread_by_gold(dev, differing_pairs(dev), USUAL_PAIRS)
        chosen = [sentence for n in indices for sentence in (dev.first[n], dev.second[n])]
        gold = ", ".join(f"{dev.gold[n]:.1f}" for n in indices)
        caption += f"; from A on, two by two, they are pairs of {dev_name(dev)} with gold {gold}"
    if not 2 <= len(chosen) <= MOST_SENTENCES:
        raise LacksError(
            f"a heat map needs 2 to {MOST_SENTENCES} different sentences, got {len(chosen)}"
        )
    encoded, absent = vectors_of(embeddings, trials, chosen)
    cosines = {label: all_cosines(vectors) for label, vectors in encoded.items()}
    panels = {
        name: [
            go.Heatmap(
                name=name,
                x=chosen,
                y=chosen,
                z=values.tolist(),
                coloraxis="coloraxis",
                texttemplate="%{z:.2f}" if len(chosen) <= LEGIBLE else None,
                xgap=1,
                ygap=1,
                customdata=[[[down, across] for across in chosen] for down in chosen],
                hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>cosine %{z:.3f}",
            )
        ]
        for name, values in cosines.items()
    }
    lowest = min(float(values.min()) for values in cosines.values())
    figure = make_panels(
        panels,
        title="Similarity of sentences",
        axes=[("sentence", "sentence")],
        shared_yaxes="all",
        horizontal_spacing=0.04,
        row_height=max(ROW, 38 * len(chosen) + BETWEEN),
        coloraxis={"cmin": lowest, "cmax": 1, "colorbar": {"title": {"text": "cosine"}}},
    )
    letters = list(ascii_uppercase[: len(chosen)])
    labels = [
        "<br>".join(wrap(f"{n} · {sentence}", LINE, max_lines=LINES, placeholder="…"))
        for n, sentence in zip(letters, chosen, strict=True)
    ]
    figure.update_xaxes(title_text="sentence", tickvals=chosen, ticktext=letters, showgrid=False)
    figure.update_yaxes(tickvals=chosen, ticktext=labels, showgrid=False, autorange="reversed")
    records = [
        {"model": name, "sentence": sentence, "other": other, "cosine": values[down, across]}
        for name, values in cosines.items()
        for down, sentence in enumerate(chosen)
        for across, other in enumerate(chosen)
    ]
    drawn = Drawn(figure, pd.DataFrame(records))
    return drawn, f"{caption} (after CompCSE, figure 4).{absent}"


def all_cosines(vectors: Array) -> Array:
    """Compute the cosine of every pair of rows, shape (N, N); 0 with a zero vector."""
    points = unit(vectors)
    return np.clip(points @ points.T, -1, 1).round(4)
