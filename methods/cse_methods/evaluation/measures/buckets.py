"""Pairs by how alike people found them. Imports no torch, so that figures can use it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUCKETS = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
"""Gold scores from the first number up to, not including, the second; 5 is in the last one."""


def in_buckets(gold: NDArray[Any]) -> Mapping[str, NDArray[np.bool_]]:
    """Which pairs lie in each bucket of gold scores, `0-1` to `4-5`: masks of shape (pairs,)."""
    last = BUCKETS[-1][1]
    return {
        f"{low}-{high}": (gold >= low) & ((gold <= high) if high == last else (gold < high))
        for low, high in BUCKETS
    }
