"""Which dev sentences a figure shows where nobody names any."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cse_methods.data.pairs import PairSet
from cse_methods.evaluation.measures.ranking import queries

TARGETS = 8
"""The most that a case study ranks."""
RANKED_PAIRS = 6
"""The same of pairs, which take two lines each."""
FEWEST = 3
"""Targets below which there is no ranking to speak of."""


@dataclass(frozen=True)
class Case:
    """Graded pairs to be ranked: the targets of one sentence, or pairs of different ones."""

    query: str | None
    """The sentence that stands in each pair; None where the pairs have none in common."""
    pairs: tuple[tuple[str, str], ...]
    """By gold, highest first; the query stands first in its pairs."""
    gold: tuple[float, ...]


def case_of(dev: PairSet, query: str | None = None) -> Case | None:
    """What to rank: at most 8 targets of a query, spread over their gold, or 6 pairs.

    Left out, the query is the sentence in most pairs, if it is in more than three; else pairs of
    different sentences are ranked. None if a query that was named has fewer than 3 targets.
    """
    by_default = queries(dev.first, dev.second)
    if query is None and not by_default:
        places = spread_by_gold(dev, differing_pairs(dev), RANKED_PAIRS)
        return _case(None, [(dev.first[n], dev.second[n]) for n in places], dev, places)
    asked = query or max(by_default, key=lambda one: len(by_default[one]))
    asked = " ".join(asked.split())
    targets: dict[str, int] = {}
    for place, (first, second) in enumerate(zip(dev.first, dev.second, strict=True)):
        if asked in (first, second) and first != second:
            targets.setdefault(second if asked == first else first, place)
    if len(targets) < FEWEST:
        return None
    sentence = {place: target for target, place in targets.items()}
    places = spread_by_gold(dev, list(sentence), TARGETS)
    return _case(asked, [(asked, sentence[place]) for place in places], dev, places)


def differing_pairs(dev: PairSet) -> list[int]:
    """Numbers of the pairs whose sentences differ in more than capitals and marks."""
    words = [[re.findall(r"\w+", one.lower()) for one in side] for side in (dev.first, dev.second)]
    return [place for place, (a, b) in enumerate(zip(*words, strict=True)) if a != b]


def spread_by_gold(dev: PairSet, places: Sequence[int], count: int) -> list[int]:
    """Numbers of `count` of these pairs at even steps of gold, highest first; short ones first."""
    left = sorted(places, key=lambda n: (len(dev.first[n]) + len(dev.second[n]), n))
    gold = {place: float(dev.gold[place]) for place in left}
    chosen: list[int] = []
    for wanted in np.linspace(max(gold.values()), min(gold.values()), min(count, len(left))):
        nearest = min(left, key=lambda place: abs(gold[place] - wanted))
        left.remove(nearest)
        chosen.append(nearest)
    return sorted(chosen, key=lambda place: -gold[place])


def some_of(sentences: Sequence[str], most: int) -> list[str]:
    """All of them, or so many at even distances."""
    count = min(most, len(sentences))
    return [sentences[place * len(sentences) // count] for place in range(count)]


def _case(
    query: str | None, pairs: Sequence[tuple[str, str]], dev: PairSet, places: Sequence[int]
) -> Case:
    return Case(query, tuple(pairs), tuple(float(dev.gold[place]) for place in places))
