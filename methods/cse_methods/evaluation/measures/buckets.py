"""Buckets of pairs by gold score; imports no torch, so that figures can use it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUCKETS = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
"""Ranges of gold scores, lower bounds included, upper bounds excluded except for 5."""


def in_buckets(gold: NDArray[Any]) -> Mapping[str, NDArray[np.bool_]]:
    """Return the pairs in each bucket of gold scores, `0-1` to `4-5`, as masks (pairs,)."""
    last = BUCKETS[-1][1]
    return {
        f"{low}-{high}": (gold >= low) & ((gold <= high) if high == last else (gold < high))
        for low, high in BUCKETS
    }
