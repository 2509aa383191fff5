"""Map configurations to points in a cube, and measure the distances between them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_platform.sweep.space.dimensions import Choices
from cse_platform.sweep.space.space import Space
from cse_platform.values import encode

Floats = NDArray[np.float64]


def build_coordinates(params: Sequence[Mapping[str, Any]], space: Space) -> Floats:
    """Build the coordinates of trials, shape (trials, dimensions); NaN for a missing value.

    Ranges are scaled to [0, 1], on a log scale if `log`; a choice becomes its index.
    """
    coordinates = np.full((len(params), len(space)), math.nan)
    for column, (name, dimension) in enumerate(space.items()):
        rows = [row for row, values in enumerate(params) if name in values]
        values = [params[row][name] for row in rows]
        if isinstance(dimension, Choices):
            encoded = [encode(choice) for choice in dimension.choices]
            coordinates[rows, column] = [encoded.index(value) for value in values]
        else:
            coordinates[rows, column] = [dimension.position_of(value) for value in values]
    return coordinates


def measure_distances(a: Floats, b: Floats) -> Floats:
    """Measure the squared distances between two sets of coordinates, shape (a, b).

    In each dimension, two different choices are 1 apart, and so are a value and a missing value.
    """
    apart = a[:, None, :] - b[None, :, :]
    missing = np.isnan(apart)
    both = np.isnan(a)[:, None, :] & np.isnan(b)[None, :, :]
    distance = np.where(missing, np.where(both, 0.0, 1.0), np.minimum(np.abs(apart), 1.0))
    return np.asarray((distance**2).sum(axis=2))
