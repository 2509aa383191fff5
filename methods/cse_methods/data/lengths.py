"""Counts the sentences of a corpus by length in a backbone's word pieces (HiCL, table 2)."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf

import numpy as np

from cse_methods.data.language.cutting import load_tokenizer

BOUNDS = (0, 32, 64, 96, 128, 256, 512, inf)
"""Bounds of the paper's intervals; an interval excludes its lower and includes its upper bound."""
AT_ONCE = 10_000
"""Number of sentences tokenised at once."""


def count_lengths(sentences: Sequence[str], *, backbone: str) -> dict[tuple[float, float], int]:
    """Count sentences by the number of their word pieces, special ones included.

    BackboneError if the backbone's tokenizer cannot be loaded.

    Returns:
        The number of sentences by the bounds of the interval, as `published_lengths` has them.
    """
    tokenizer = load_tokenizer(backbone)
    lengths = np.empty(len(sentences), dtype=np.int64)
    for start in range(0, len(sentences), AT_ONCE):
        some = list(sentences[start : start + AT_ONCE])
        pieces = tokenizer(some, verbose=False)["input_ids"]
        lengths[start : start + AT_ONCE] = list(map(len, pieces))
    return {
        (over, to): int(((lengths > over) & (lengths <= to)).sum()) for over, to in pairwise(BOUNDS)
    }
