"""Positives of sentences, before and after shuffled group whitening (WhitenedCSE, figure 1)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from cse_dashboards.encoded import (
    Array,
    Embeddings,
    by_pca,
    diversity_of,
    shuffled_whitening,
    some_of,
)
from cse_dashboards.figures.embeddings.sentences import (
    LacksError,
    Trials,
    dev_of,
    embeddings_picture,
)
from cse_dashboards.figures.picture import Drawn, Picture, colour, cut_text, make_panels

WHITENED_TOGETHER = 256
"""Most sentences that are whitened together."""
NAMED_SENTENCES = 5
"""The number of sentences whose positives are highlighted."""
USUAL_POSITIVES = 3
"""Positives per sentence if the configuration does not set it, as in WhitenedCSE."""


@dataclass(frozen=True, eq=False)
class WhiteningSide:
    """One side of the figure: before or after whitening."""

    background: NDArray[Any]
    """Points of all sentences in the plane, shape (N, 2)."""
    positives: Mapping[str, NDArray[Any]]
    """Points of the positives of some sentences, shape (m, 2), in the same plane."""
    axes: tuple[str, str]
    """The names of the plane's two axes."""
    distances: NDArray[Any]
    """Mean cosine distance between each sentence's positives, shape (N,)."""
    others: float
    """Mean cosine distance between different sentences."""


def diversity(embeddings: Embeddings, trials: Trials) -> Picture:
    return embeddings_picture(
        "diversity",
        "Positives before and after whitening",
        lambda: _make_diversity(embeddings, trials),
    )


def _make_diversity(embeddings: Embeddings, trials: Trials) -> tuple[Drawn, str]:
    """Draw the positives of the first trial's model, before and after whitening.

    The configuration sets the number of positives, of groups, and of positives made by whitening
    one encoding; defaults are 3, one group per two coordinates, and 1.
    """
    dev, (label, trial) = dev_of(embeddings, trials), next(iter(trials.items()))
    values = embeddings.details(trial).configuration.values
    sentences = some_of(list(dict.fromkeys(dev.first)), WHITENED_TOGETHER)
    positives, copies = values.get("positives") or USUAL_POSITIVES, values.get("sgw_copies") or 1
    times = positives // copies
    raw = embeddings.under_dropout(trial, sentences, times=times).repeat(copies, axis=0)
    groups = values.get("groups") or max(1, raw.shape[2] // 2)
    try:
        white = shuffled_whitening(raw, groups=groups)
    except ValueError as problem:
        raise LacksError(f"the vectors of {label} cannot be whitened: {problem}") from problem
    sides = {"raw": _measure_side(raw, sentences), "whitened": _measure_side(white, sentences)}
    return draw_diversity(sides), (
        f"{len(sentences)} sentences of STS-B dev ({dev.source}) under the model of {label}. "
        f"{_describe_positives(times, copies)}, in {groups} groups of coordinates drawn anew. "
        "Diversity is the mean of 1 − cosine over the pairs of a sentence’s positives; its bars "
        "are means over sentences ± their standard deviation (after WhitenedCSE, figure 1)."
    )


def _describe_positives(times: int, copies: int) -> str:
    """Describe for the caption how positives are made."""
    if copies == 1:
        return (
            f"Positives are {times} encodings under dropout; on the right each of these is whitened"
        )
    encodings = "one encoding" if times == 1 else f"{times} encodings"
    return (
        f"The {times * copies} positives are from {encodings} under dropout, each taken {copies} "
        "times: raw ones of the same encoding are equal and add no diversity; on the right each is "
        "whitened by itself"
    )


def _measure_side(views: Array, sentences: list[str]) -> WhiteningSide:
    number, count, width = views.shape
    plane = by_pca(views.reshape(-1, width))
    points = plane.points.reshape(number, count, 2)
    measured = diversity_of(views)
    places = {sentence: place for place, sentence in enumerate(sentences)}
    return WhiteningSide(
        background=points[0],
        positives={
            sentence: points[:, places[sentence]]
            for sentence in some_of(sentences, NAMED_SENTENCES)
        },
        axes=plane.axes,
        distances=measured.positives,
        others=measured.others,
    )


def draw_diversity(sides: Mapping[str, WhiteningSide]) -> Drawn:
    """Draw all sentences with the positives of some, and bars of the distances between positives.

    Source:
        Zhuo et al. 2023 (WhitenedCSE), figure 1.
    """
    planes = {name: _make_plane(side, legend=not n) for n, (name, side) in enumerate(sides.items())}
    figure = make_panels(
        {**planes, "Diversity": _make_bars(sides)},
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
    return Drawn(
        figure, pd.DataFrame([record for n, s in sides.items() for record in _list_records(n, s)])
    )


def _list_records(name: str, side: WhiteningSide) -> Iterator[dict[str, Any]]:
    means = {"positives of one sentence": side.distances.mean(), "different sentences": side.others}
    stds = {"positives of one sentence": side.distances.std(ddof=1)}
    for what, mean in means.items():
        value = {"mean cosine distance": mean, "std": stds.get(what)}
        yield {"vectors": name, "shown": what, **value}
    for x, y in side.background.round(4):
        yield {"vectors": name, "shown": "all sentences", "x": x, "y": y}
    for sentence, points in side.positives.items():
        for x, y in points.round(4):
            yield {"vectors": name, "shown": "positive", "sentence": sentence, "x": x, "y": y}


def _make_plane(side: WhiteningSide, *, legend: bool) -> list[Any]:
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
            name=cut_text(sentence, 40),
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


def _make_bars(sides: Mapping[str, WhiteningSide]) -> list[Any]:
    names = list(sides)
    text = {"texttemplate": "%{y:.3f}", "textposition": "inside", "insidetextanchor": "start"}
    own = go.Bar(
        name="positives of one sentence",
        x=names,
        y=[float(np.mean(side.distances)) for side in sides.values()],
        error_y={"array": [float(np.std(side.distances, ddof=1)) for side in sides.values()]},
        marker_color=colour(6),
        **text,
    )
    values = [side.others for side in sides.values()]
    others = go.Bar(name="different sentences", x=names, y=values, marker_color=colour(7), **text)
    return [own, others]
