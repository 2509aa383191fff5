"""Shared by figures of embeddings: the dev sentences, and vectors by trial.

Trials are given by label. All are shown on the dev sentences of the first one, so that they can be
compared. A missing model is named in the caption; if all are missing, `LacksError` says why.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from cse_dashboards.encoded import Embeddings, Vectors
from cse_dashboards.errors import DashboardError
from cse_methods.data.pairs import PairSet
from cse_methods.errors import CseError

Trials = Mapping[str, str]
"""Keys of trials, or their first digits, by label."""
POINTS = 2000
"""Most sentences in a plane."""


class LacksError(DashboardError):
    """Something that a picture needs is missing."""


def dev_of(embeddings: Embeddings, trials: Trials) -> PairSet:
    """Return the dev pairs that all trials are shown on."""
    if not trials:
        raise LacksError("none of these rows kept a model; `cse-leaderboard show TRIAL` says why")
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


def some_of(sentences: Sequence[str], most: int) -> list[str]:
    """Return all sentences, or `most` of them at even distances; a repeated one counts once."""
    distinct = list(dict.fromkeys(sentences))
    count = min(most, len(distinct))
    return [distinct[index * len(distinct) // count] for index in range(count)]


def differing_pairs(dev: PairSet) -> list[int]:
    """Return the indices of the pairs whose sentences differ in more than case and punctuation."""
    words = [
        [re.findall(r"\w+", sentence.lower()) for sentence in side]
        for side in (dev.first, dev.second)
    ]
    return [index for index, (a, b) in enumerate(zip(*words, strict=True)) if a != b]


def spread_by_gold(dev: PairSet, indices: Sequence[int], count: int) -> list[int]:
    """Choose `count` of these pairs at even steps of gold, preferring short ones.

    Returns their indices, highest gold first.
    """
    left = sorted(indices, key=lambda n: (len(dev.first[n]) + len(dev.second[n]), n))
    gold = {n: float(dev.gold[n]) for n in left}
    chosen: list[int] = []
    for wanted in np.linspace(max(gold.values()), min(gold.values()), min(count, len(left))):
        nearest = min(left, key=lambda n: abs(gold[n] - wanted))
        left.remove(nearest)
        chosen.append(nearest)
    return sorted(chosen, key=lambda n: -gold[n])
