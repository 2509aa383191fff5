"""Pictures of what models make of sentences: of STS-B dev on purpose, or of a user's own.

Trials come by label. All of them read the dev sentences of the first, so that they can be laid
side by side. A model that is gone is named in the caption; without any the picture says why.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from cse_dashboards.encoded.choices import Case, case_of, distinct, some_of, spread, telling
from cse_dashboards.encoded.models import Embeddings, Vectors
from cse_dashboards.encoded.space import by_pca, by_umap, cosine_matrix, paired_cosines
from cse_dashboards.errors import DashboardError
from cse_dashboards.figures import case_study as case_figure
from cse_dashboards.figures import heat_map as heat_figure
from cse_dashboards.figures import projection as projection_figure
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.positives import whitened_positives
from cse_methods.data.dev_sets import DevSet
from cse_methods.errors import CseError
from cse_methods.evaluation.measures.ranking import kendall

__all__ = [
    "Embeddings",
    "case_study",
    "diversity",
    "heat_map",
    "pictures_of_embeddings",
    "projection",
]

Trials = Mapping[str, str]
"""Keys of trials, or how they begin, by label."""
By = Literal["pca", "umap"]
Told = tuple[go.Figure, str]
"""A figure and its caption."""

POINTS = 2000
"""Sentences in a plane, at most."""
PAIRS = 3
"""Dev pairs in a heat map for which nobody names sentences."""
MOST = 26
"""Sentences in a heat map, at most: a letter each."""


class _LacksError(DashboardError):
    """What a picture needs is not there."""


def pictures_of_embeddings(embeddings: Embeddings, trials: Trials) -> Iterator[Picture]:
    """All four, by UMAP where it is installed; each model is opened once, the first twice."""
    with suppress(CseError):  # each picture says so itself
        dev = _dev(embeddings, trials)
        ranked = [one for pair in _case(dev, None).pairs for one in pair]
        _vectors(embeddings, trials, [*_shown(dev), *_of_pairs(dev, _places(dev)), *ranked])
    yield heat_map(embeddings, trials)
    yield projection(embeddings, trials, by="umap" if find_spec("umap") else "pca")
    yield diversity(embeddings, trials)
    yield case_study(embeddings, trials)


def heat_map(embeddings: Embeddings, trials: Trials, sentences: Sequence[str] = ()) -> Picture:
    """Similarities of sentences to each other under each model (CompCSE, figure 4).

    Args:
        embeddings: opens models.
        trials: one or more.
        sentences: 2 to 26 different ones; left out, three pairs of STS-B dev, of high, middle and
            low gold.
    """
    return _picture(
        "heat_map", "Similarity of sentences", lambda: _heat_map(embeddings, trials, sentences)
    )


def projection(embeddings: Embeddings, trials: Trials, *, by: By = "pca") -> Picture:
    """The sentences of STS-B dev in a plane under each model (CompCSE, figure 5).

    Args:
        embeddings: opens models.
        trials: one or more.
        by: `pca`, or `umap` where the extra is installed.
    """
    return _picture(
        f"projection_{by}",
        f"Sentences by length, {by.upper()}",
        lambda: _projection(embeddings, trials, by),
    )


def diversity(embeddings: Embeddings, trials: Trials) -> Picture:
    """Positives before and after whitening, of the first trial (WhitenedCSE, figure 1).

    Args:
        embeddings: opens models.
        trials: one or more.
    """

    def draw() -> Told:
        dev, (label, trial) = _dev(embeddings, trials), next(iter(trials.items()))
        return whitened_positives(embeddings, label, trial, dev)

    return _picture("diversity", "Positives before and after whitening", draw)


def case_study(embeddings: Embeddings, trials: Trials, query: str | None = None) -> Picture:
    """How each model ranks the graded targets of a sentence of STS-B dev (RankCSE, table 1).

    Args:
        embeddings: opens models.
        trials: one or more.
        query: a sentence with 3 targets or more; left out, the one in most pairs. Where no
            sentence is in more than three, pairs of different sentences are ranked instead.
    """
    return _picture(
        "case_study", "Ranking case study", lambda: _case_study(embeddings, trials, query)
    )


def _heat_map(embeddings: Embeddings, trials: Trials, sentences: Sequence[str]) -> Told:
    caption = "Cosine of each sentence with each other, on one scale of colours"
    asked = [one for one in distinct(" ".join(sentence.split()) for sentence in sentences) if one]
    if not asked:
        dev = _dev(embeddings, trials)
        places = _places(dev)
        asked = _of_pairs(dev, places)
        gold = ", ".join(f"{dev.gold[place]:.1f}" for place in places)
        caption += f"; from A on, two by two, they are pairs of {_named(dev)} with gold {gold}"
    if not 2 <= len(asked) <= MOST:
        raise _LacksError(
            f"a heat map is of 2 to {MOST} different sentences, and {len(asked)} came: name others"
        )
    found, lacking = _vectors(embeddings, trials, asked)
    figure = heat_figure.heat_map(asked, {label: cosine_matrix(v) for label, v in found.items()})
    return figure, f"{caption} (after CompCSE, figure 4).{lacking}"


def _projection(embeddings: Embeddings, trials: Trials, by: By) -> Told:
    if by == "umap" and find_spec("umap") is None:
        raise _LacksError("UMAP is not installed: pip install 'cse-platform[umap]', or ask for PCA")
    dev = _dev(embeddings, trials)
    shown = _shown(dev)
    found, lacking = _vectors(embeddings, trials, shown)
    planes = {label: (by_umap if by == "umap" else by_pca)(v) for label, v in found.items()}
    figure = projection_figure.projection(
        shown,
        [len(sentence.split()) for sentence in shown],
        {label: (plane.points, plane.axes) for label, plane in planes.items()},
    )
    every = len(distinct([*dev.first, *dev.second]))
    many = f"All {every}" if every == len(shown) else f"{len(shown)} of the {every}"
    return figure, (
        f"{many} sentences of {_named(dev)} in two dimensions by cosine, coloured by their number "
        "of words; where short ones lie together, length was learned (after CompCSE, figure 5)."
        f"{lacking}"
    )


def _case_study(embeddings: Embeddings, trials: Trials, query: str | None) -> Told:
    dev = _dev(embeddings, trials)
    case = _case(dev, query)
    first, second = zip(*case.pairs, strict=True)
    vectors, lacking = _vectors(embeddings, trials, [*first, *second])
    cosines = {label: paired_cosines(*np.split(own, 2)).tolist() for label, own in vectors.items()}
    targets: list[tuple[str, ...]]
    if case.query is None:
        title, targets = "Ranking of pairs", [*case.pairs]
        caption = (
            f"No sentence is in more than three pairs of {_named(dev)}: {len(targets)} of these, "
            "spread over their gold, are ranked instead of one sentence’s targets."
        )
    else:
        title, targets = f"Ranking for “{case.query}”", [(target,) for target in second]
        caption = f"Targets of a sentence of {_named(dev)}, at most 8, spread over their gold."
    figure = case_figure.case_study(targets, case.gold, cosines, title=title)
    taus = ", ".join(f"{label} {kendall(own, case.gold):.2f}" for label, own in cosines.items())
    return figure, (
        f"{caption} A column ranks by the scores at its marks: gold, 0 to 5, or cosines; lines "
        f"that cross are wrong orders. Kendall’s tau-b: {taus} (after RankCSE, tables 1 and 12)."
        f"{lacking}"
    )


def _picture(name: str, title: str, draw: Callable[[], Told]) -> Picture:
    try:
        figure, caption = draw()
    except CseError as problem:
        return Picture(name, title, "", missing=str(problem))
    return Picture(name, title, caption, figure)


def _dev(embeddings: Embeddings, trials: Trials) -> DevSet:
    if not trials:
        raise _LacksError("no trial is complete: a finished cse-sweep leaves models to look into")
    return embeddings.dev(next(iter(trials.values())))


def _case(dev: DevSet, query: str | None) -> Case:
    case = case_of(dev, query)
    if case is None:
        raise _LacksError(
            f"{query!r} has fewer than 3 targets in {_named(dev)}: name another of its sentences"
        )
    return case


def _vectors(
    embeddings: Embeddings, trials: Trials, sentences: Sequence[str]
) -> tuple[dict[str, Vectors], str]:
    """By label; and for the caption, which trials have none and why."""
    found, lacking = {}, []
    for label, trial in trials.items():
        try:
            found[label] = embeddings.vectors(trial, sentences)
        except CseError as problem:
            lacking.append(f"{label}: {problem}")
    if not found:
        raise _LacksError("; ".join(lacking))
    return found, f" Not shown: {'; '.join(lacking)}." if lacking else ""


def _named(dev: DevSet) -> str:
    return f"STS-B dev ({dev.source})"


def _shown(dev: DevSet) -> list[str]:
    return some_of(distinct([*dev.first, *dev.second]), POINTS)


def _places(dev: DevSet) -> list[int]:
    return spread(dev, telling(dev), PAIRS)


def _of_pairs(dev: DevSet, places: Sequence[int]) -> list[str]:
    return [one for place in places for one in (dev.first[place], dev.second[place])]
