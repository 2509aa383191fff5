"""Shared by figures of embeddings: the dev sentences, and vectors by trial.

Trials are given by label. All are shown on the dev sentences of the first one, so that they can be
compared. A missing model is named in the caption; if all are missing, the picture says why.
"""

from collections.abc import Callable, Mapping, Sequence

from cse_dashboards.encoded import (
    Case,
    Embeddings,
    Vectors,
    case_of,
    differing_pairs,
    some_of,
    spread_by_gold,
)
from cse_dashboards.errors import DashboardError
from cse_dashboards.figures.picture import Drawn, Picture
from cse_methods.data.pairs import PairSet
from cse_methods.errors import CseError

Trials = Mapping[str, str]
"""Keys of trials, or their first digits, by label."""

POINTS = 2000
"""Most sentences in a plane."""
HEAT_MAP_PAIRS = 3
"""Number of dev pairs in a heat map if no sentences are given."""


class LacksError(DashboardError):
    """Something that a picture needs is missing."""


def embeddings_picture(name: str, title: str, draw: Callable[[], tuple[Drawn, str]]) -> Picture:
    """Make a picture with its figure and caption, or with the reason why there is none."""
    try:
        drawn, caption = draw()
    except CseError as problem:
        return Picture(name, title, "", missing=str(problem))
    return Picture(name, title, caption, *drawn)


def dev_of(embeddings: Embeddings, trials: Trials) -> PairSet:
    """Return the dev pairs that all trials are shown on."""
    if not trials:
        raise LacksError("no trial is complete: a finished cse-sweep leaves models to look into")
    return embeddings.dev(next(iter(trials.values())))


def vectors_of(
    embeddings: Embeddings, trials: Trials, sentences: Sequence[str]
) -> tuple[dict[str, Vectors], str]:
    """Encode the sentences with each model.

    Returns vectors by label, and a caption note on trials without vectors.
    """
    vectors, absent = {}, []
    for label, trial in trials.items():
        try:
            vectors[label] = embeddings.vectors(trial, sentences)
        except CseError as problem:
            absent.append(f"{label}: {problem}")
    if not vectors:
        raise LacksError("; ".join(absent))
    return vectors, f" Not shown: {'; '.join(absent)}." if absent else ""


def dev_name(dev: PairSet) -> str:
    """Name the dev pairs for a caption."""
    return f"STS-B dev ({dev.source})"


def sentences_in_plane(dev: PairSet) -> list[str]:
    return some_of(list(dict.fromkeys([*dev.first, *dev.second])), POINTS)


def usual_pairs(dev: PairSet) -> list[int]:
    """Choose dev pairs for a heat map, of high, middle and low gold. Returns their indices."""
    return spread_by_gold(dev, differing_pairs(dev), HEAT_MAP_PAIRS)


def sentences_of(dev: PairSet, pairs: Sequence[int]) -> list[str]:
    return [sentence for pair in pairs for sentence in (dev.first[pair], dev.second[pair])]


def ranked_case(dev: PairSet, query: str | None) -> Case:
    case = case_of(dev, query)
    if case is None:
        raise LacksError(
            f"{query!r} has fewer than 3 targets in {dev_name(dev)}: name another of its sentences"
        )
    return case
