"""Positives of sentences, before and after shuffled group whitening (WhitenedCSE, figure 1)."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.encoded import Array, Embeddings, by_pca, shuffled_whitening, unit
from cse_dashboards.figures.embeddings.sentences import (
    LacksError,
    Trials,
    dev_name,
    dev_of,
    some_of,
)
from cse_dashboards.figures.picture import Drawn, colour, cut_text, make_panels

WHITENED_TOGETHER = 256
"""Most sentences that are whitened together."""
NAMED_SENTENCES = 5
"""The number of sentences whose positives are highlighted."""
USUAL_POSITIVES = 3
"""Positives per sentence if the configuration does not set it, as in WhitenedCSE."""
SAME, OTHERS = "positives of one sentence", "different sentences"


def diversity(embeddings: Embeddings, trials: Trials) -> tuple[Drawn, str]:
    """Draw the positives of the first trial's model, before and after whitening.

    The configuration sets the number of positives, of groups, and of positives made by whitening
    one encoding; defaults are 3, one group per two coordinates, and 1.
    """
    dev, (label, trial) = dev_of(embeddings, trials), next(iter(trials.items()))
    values = embeddings.details(trial).configuration.values
    sentences = some_of(dev.first, WHITENED_TOGETHER)
    positives, copies = values.get("positives") or USUAL_POSITIVES, values.get("sgw_copies") or 1
    times = positives // copies
    raw = embeddings.under_dropout(trial, sentences, times=times).repeat(copies, axis=0)
    groups = values.get("groups") or max(1, raw.shape[2] // 2)
    try:
        white = shuffled_whitening(raw, groups=groups)
    except ValueError as problem:
        raise LacksError(f"the vectors of {label} cannot be whitened: {problem}") from problem
    made = f"{times} encodings under dropout; on the right each of these is whitened"
    if copies > 1:
        encodings = "one encoding" if times == 1 else f"{times} encodings"
        made = (
            f"{times * copies}, from {encodings} under dropout, each taken {copies} times: raw "
            "ones of the same encoding are equal and add no diversity; on the right each is "
            "whitened by itself"
        )
    return draw_diversity({"raw": raw, "whitened": white}, sentences), (
        f"{len(sentences)} sentences of {dev_name(dev)} under the model of {label}. "
        f"Positives are {made}, in {groups} groups of coordinates drawn anew. "
        "Diversity is the mean of 1 − cosine over the pairs of a sentence’s positives; its bars "
        "are means over sentences ± their standard deviation (after WhitenedCSE, figure 1)."
    )


def diversity_of(views: Array) -> tuple[NDArray[np.float64], float]:
    """Measure how far apart vectors are, as mean cosine distance (1 - cosine, in [0, 2]).

    Views have shape (m, N, D), m >= 2, N >= 2.

    Returns:
        The distance between a sentence's positives, by sentence, shape (N,), and the distance
        between different sentences.
    """
    points = unit(views)
    pairs = list(combinations(range(len(points)), 2))
    same = np.mean([1 - (points[a] * points[b]).sum(axis=1) for a, b in pairs], axis=0)
    count = points.shape[1]
    # |sum of the points|^2 sums the products of all ordered pairs, including those of a point
    # with itself.
    sums = np.square(points.sum(axis=1)).sum(axis=1) - np.square(points).sum(axis=(1, 2))
    return same, float(1 - sums.mean() / (count * (count - 1)))


def draw_diversity(sides: Mapping[str, Array], sentences: Sequence[str]) -> Drawn:
    """Draw all sentences with the positives of some, and bars of the distances between positives.

    The views of a side have shape (m, N, D).

    Source:
        Zhuo et al. 2023 (WhitenedCSE), figure 1.
    """
    panels: dict[str, list[Any]] = {}
    axes, records = [], list[dict[str, Any]]()
    named = some_of(sentences, NAMED_SENTENCES)
    for name, views in sides.items():
        plane = by_pca(views.reshape(-1, views.shape[-1]))
        points = plane.points.reshape(*views.shape[:2], 2).round(4)
        axes.append(plane.axes)
        legend = not panels
        panels[name] = [
            go.Scatter(
                name="all sentences",
                x=points[0, :, 0],
                y=points[0, :, 1],
                mode="markers",
                marker={"size": 4, "color": "rgba(138,138,138,0.35)"},
                hoverinfo="skip",
                legendgroup="all",
                showlegend=legend,
            )
        ]
        records += [
            {"vectors": name, "shown": "all sentences", "x": x, "y": y} for x, y in points[0]
        ]
        for index, sentence in enumerate(named):
            own = points[:, sentences.index(sentence)]
            panels[name].append(
                go.Scatter(
                    name=cut_text(sentence, 40),
                    x=own[:, 0],
                    y=own[:, 1],
                    mode="markers",
                    marker={"size": 9, "color": colour(index), "symbol": "diamond"},
                    hovertemplate=f"positive of<br>{sentence}<extra></extra>",
                    legendgroup=sentence,
                    showlegend=legend,
                )
            )
            shown = {"vectors": name, "shown": "positive", "sentence": sentence}
            records += [{**shown, "x": x, "y": y} for x, y in own]
    positives, others = zip(*map(diversity_of, sides.values()), strict=True)
    means = [distances.mean() for distances in positives]
    spreads = [distances.std(ddof=1) for distances in positives]
    text = {"texttemplate": "%{y:.3f}", "textposition": "inside", "insidetextanchor": "start"}
    panels["Diversity"] = [
        go.Bar(
            name=SAME, x=list(sides), y=means, error_y_array=spreads, marker_color=colour(6), **text
        ),
        go.Bar(name=OTHERS, x=list(sides), y=others, marker_color=colour(7), **text),
    ]
    for name, mean, std, other in zip(sides, means, spreads, others, strict=True):
        records.append({"vectors": name, "shown": SAME, "mean cosine distance": mean, "std": std})
        records.append({"vectors": name, "shown": OTHERS, "mean cosine distance": other})
    figure = make_panels(
        panels,
        title="Positives before and after whitening",
        axes=[*axes, ("embeddings", "mean cosine distance")],
        barmode="group",
        legend={"orientation": "h", "y": -0.2},
    )
    return Drawn(figure, pd.DataFrame(records))
