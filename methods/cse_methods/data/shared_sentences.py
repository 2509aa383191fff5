"""Groups the pairs of a set by shared sentences, and knows the groups of the test sets.

An encoder tends to do equally well on pairs that share a sentence, so they are less evidence than
the same number of independent pairs.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.files.text import read_own_table

Groups = NDArray[np.intp]
"""The group number of each pair, shape (pairs,), from 0 in the order of first appearance."""


def group_by_sentence(first: Sequence[str], second: Sequence[str]) -> Groups:
    """Group pairs by connected components: pairs that share a sentence are in the same group.

    So are pairs that are linked by a chain of such pairs. Sentences are the same if their texts are
    equal. Takes the first and the second sentence of each pair.
    """
    from scipy.sparse import coo_array  # not needed to read a leaderboard
    from scipy.sparse.csgraph import connected_components

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
    """Renumber groups from 0 in the order of first appearance."""
    _, start, group = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(start))[group]


def known_groups(gold: NDArray[np.float64]) -> Groups | None:
    """Return the groups of a known test set, found by its gold scores; None if it is unknown.

    The groups are stored in a table, because only `evaluation/` may open test sets.
    """
    digest = sha256(np.ascontiguousarray(gold, "<f8").tobytes()).hexdigest()
    line = _read_table().get(digest)
    if line is None:
        return None
    groups = np.arange(len(gold))
    for text in filter(None, line["groups"].split(";")):
        members = [int(number) for number in text.split()]
        groups[members] = members[0]
    return number_by_appearance(groups)


@cache
def _read_table() -> Mapping[str, Mapping[str, str]]:
    """Read the row of each known test set, by the checksum of its gold scores.

    `groups` lists the groups of several pairs, separated by semicolons; each is the numbers of its
    pairs, separated by spaces.
    """
    rows = read_own_table(Path(__file__).with_name("shared_sentences.csv"))
    return {row["gold_sha256"]: row for row in rows}
