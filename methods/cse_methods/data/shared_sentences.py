"""Groups the pairs of a set by the sentences that they share, and knows pairs that sets share.

Pairs that share a sentence are alike in how well an encoder does on them, so that they are less
evidence than as many pairs of their own sentences.
"""

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Groups = NDArray[np.intp]
"""The number of each pair's group, shape (pairs,), counted from 0 as they first appear."""


def group_by_sentence(first: Sequence[str], second: Sequence[str]) -> Groups:
    """Group pairs by connected components: two that share a sentence are in one group.

    So are those that a chain of such pairs links. Sentences are the same if their texts are.

    Args:
        first: the first sentence of each pair.
        second: the second one.

    Raises:
        ValueError: if there are not as many first as second sentences.
    """
    numbers: dict[str, int] = {}
    ends = np.array(
        [
            [numbers.setdefault(sentence, len(numbers)) for sentence in pair]
            for pair in zip(first, second, strict=True)
        ],
        dtype=np.intp,
    ).reshape(-1, 2)
    links = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(numbers),) * 2)
    _, component = connected_components(links, directed=False)
    return number_by_appearance(component[ends[:, 0]])


def number_by_appearance(groups: NDArray[np.integer[Any]]) -> Groups:
    """Number groups anew, from 0 in the order in which they first appear."""
    _, start, group = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(start))[group]


def known_groups(gold: NDArray[np.float64]) -> Groups | None:
    """Return the groups of a known test set, by its gold scores; None if it is not known.

    They are read from a table, as nothing but `evaluation/` opens test sets.
    """
    line = _read_table().get(sha256_of_gold(gold))
    if line is None:
        return None
    groups = np.arange(len(gold))
    for members in filter(None, line["groups"].split(";")):
        places = [int(place) for place in members.split()]
        groups[places] = places[0]
    return number_by_appearance(groups)


def known_repeats(gold: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Return which rows of a known STS test set an earlier task has too, by its gold scores.

    The order of the tasks, and what counts as the same pair, are those of clean scores. The mask
    has the shape (pairs,); None if the set is not known.
    """
    line = _read_table().get(sha256_of_gold(gold))
    if line is None:
        return None
    repeats = np.zeros(len(gold), np.bool_)
    repeats[[int(place) for place in line["repeated"].split()]] = True
    return repeats


def sha256_of_gold(gold: NDArray[np.float64]) -> str:
    """Checksum of gold scores in the order of the pairs."""
    return sha256(np.ascontiguousarray(gold, "<f8").tobytes()).hexdigest()


@cache
def _read_table() -> Mapping[str, Mapping[str, str]]:
    """Read the line of each known test set, by the checksum of its gold.

    `groups` are those of several pairs: the numbers of the pairs have blanks between them, the
    groups semicolons. `repeated` are the numbers of the pairs that an earlier task has too.
    """
    table = Path(__file__).with_name("shared_sentences.csv")
    with table.open(newline="", encoding="utf-8") as stream:
        return {row["gold_sha256"]: row for row in csv.DictReader(stream)}
