"""The Pareto front: what nothing else is better than in every respect."""

from collections.abc import Sequence
from typing import Literal

import numpy as np


def non_dominated(
    points: Sequence[Sequence[float]], directions: Sequence[Literal["maximize", "minimize"]]
) -> list[int]:
    """The places of the points that no other one dominates, in order; equal points are all there.

    A point dominates another if it is better in one objective and worse in none.

    Args:
        points: of equal length, a number for each objective.
        directions: whether the higher or the lower is better, for each objective.
    """
    if not points:
        return []
    signs = [1.0 if one == "maximize" else -1.0 for one in directions]
    values = np.asarray(points, dtype=np.float64) * signs
    found = []
    for place, point in enumerate(values):
        dominates = (values >= point).all(axis=1) & (values > point).any(axis=1)
        if not dominates.any():
            found.append(place)
    return found
