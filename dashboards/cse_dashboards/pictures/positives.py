"""The positives of sentences, before and after shuffled group whitening (WhitenedCSE, figure 1)."""

import plotly.graph_objects as go

from cse_dashboards.encoded.choices import distinct, some_of
from cse_dashboards.encoded.models import Embeddings
from cse_dashboards.encoded.space import Array, by_pca, diversity_of, shuffled_whitening
from cse_dashboards.errors import DashboardError
from cse_dashboards.figures.diversity import Spread, diversity
from cse_methods.data.dev_sets import DevSet

BATCH = 256
"""Sentences that are whitened together."""
NAMED = 5
"""Sentences whose positives stand out."""
POSITIVES = 3
"""Of a sentence, where the trial's configuration does not say: WhitenedCSE's own number."""


class WhiteningError(DashboardError):
    """Vectors cannot be whitened."""


def whitened_positives(
    embeddings: Embeddings, label: str, trial: str, dev: DevSet
) -> tuple[go.Figure, str]:
    """Positives as a trial's model makes them, and as whitening makes them of these.

    Positives and groups are as many as the configuration says, and so are the positives that one
    encoding is whitened to; without, 3, a group for each two coordinates, and 1.

    Args:
        embeddings: opens models.
        label: of the trial.
        trial: its key, or the first 6 or more digits of it.
        dev: whose sentences are encoded: 256 at most.

    Returns:
        The figure and its caption.

    Raises:
        CseError: if there is no model.
        WhiteningError: if its vectors cannot be whitened.
    """
    values = embeddings.story(trial).configuration.values
    sentences = some_of(distinct(dev.first), BATCH)
    positives, copies = values.get("positives") or POSITIVES, values.get("sgw_copies") or 1
    times = positives // copies
    raw = embeddings.under_dropout(trial, sentences, times=times).repeat(copies, axis=0)
    groups = values.get("groups") or max(1, raw.shape[2] // 2)
    try:
        white = shuffled_whitening(raw, groups=groups)
    except ValueError as problem:
        raise WhiteningError(f"the vectors of {label} cannot be whitened: {problem}") from problem
    sides = {"raw": _side(raw, sentences), "whitened": _side(white, sentences)}
    return diversity(sides), (
        f"{len(sentences)} sentences of STS-B dev ({dev.source}) under the model of {label}. "
        f"{_made(times, copies)}, in {groups} groups of coordinates drawn anew. Diversity is the "
        "mean of 1 − cosine over the pairs of a sentence’s positives; its bars are "
        "means over sentences ± their standard deviation (after WhitenedCSE, figure 1)."
    )


def _made(times: int, copies: int) -> str:
    """How positives come about, for the caption."""
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


def _side(views: Array, sentences: list[str]) -> Spread:
    number, count, width = views.shape
    plane = by_pca(views.reshape(-1, width))
    points = plane.points.reshape(number, count, 2)
    measured = diversity_of(views)
    places = {sentence: place for place, sentence in enumerate(sentences)}
    return Spread(
        background=points[0],
        positives={one: points[:, places[one]] for one in some_of(sentences, NAMED)},
        axes=plane.axes,
        distances=measured.positives,
        others=measured.others,
    )
