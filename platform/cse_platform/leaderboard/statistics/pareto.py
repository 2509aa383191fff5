"""Finds the Pareto front: the points that no other point dominates."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


def non_dominated(
    points: Sequence[Sequence[float]], directions: Sequence[Literal["maximize", "minimize"]]
) -> list[int]:
    """Find the indices of the points that no other point dominates; equal points are all included.

    A point dominates another if it is better in one objective and worse in none. A point with a NaN
    neither dominates nor is dominated. Two objectives take a sort; more take a pass over the
    remaining points for each distinct point of the front.

    Args:
        points: of equal length, a number for each objective.
        directions: for each objective, whether higher or lower values are better.
    """
    if not points:
        return []
    signs = [1.0 if direction == "maximize" else -1.0 for direction in directions]
    values = np.asarray(points, dtype=np.float64) * signs
    on_front: NDArray[np.bool_] = np.asarray(np.isnan(values).any(axis=1))
    compared = np.flatnonzero(~on_front)
    different, which = np.unique(values[compared], axis=0, return_inverse=True)
    front = (
        _find_front_of_two(different) if len(directions) == 2 else _find_front_of_many(different)
    )
    on_front[compared] = front[which.reshape(-1)]
    return [int(index) for index in np.flatnonzero(on_front)]


def _find_front_of_two(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Find which distinct points are on the front; two columns, rows in ascending order."""
    second = points[::-1, 1]  # by the first column, highest first
    highest_before = np.concatenate([[-np.inf], np.maximum.accumulate(second)[:-1]])
    front: NDArray[np.bool_] = second > highest_before
    front[:1] = True  # -inf is not above -inf
    return front[::-1]


def _find_front_of_many(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Find which distinct points are on the front, for any number of columns."""
    ranks = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in points.T]
    # A dominating point has a higher sum of ranks, so the first of those left is on the front.
    left: NDArray[np.intp] = np.argsort(-np.sum(ranks, axis=0), kind="stable")
    front: NDArray[Any] = np.zeros(len(points), dtype=np.bool_)
    while len(left):
        front[left[0]] = True
        left = left[(points[left] > points[left[0]]).any(axis=1)]
    return front
