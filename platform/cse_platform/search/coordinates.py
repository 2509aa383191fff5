"""Map configurations to points in a cube, and measure the distances between them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.values import encode

Floats = NDArray[np.float64]


def build_coordinates(params: Sequence[Mapping[str, Any]], space: Space) -> Floats:
    """Build the coordinates of trials, shape (trials, dimensions); NaN for a missing value.

    Ranges are scaled to [0, 1], on a log scale if `log`; a choice becomes its index.
    """
    rows = [
        [_locate_value(space[name], row[name]) if name in row else math.nan for name in space]
        for row in params
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(space))


def measure_distances(here: Floats, there: Floats) -> Floats:
    """Measure the squared distances between two sets of coordinates, shape (here, there).

    In each dimension, two different choices are 1 apart, and so are a value and a missing value.
    """
    apart = here[:, None, :] - there[None, :, :]
    missing = np.isnan(apart)
    both = np.isnan(here)[:, None, :] & np.isnan(there)[None, :, :]
    distance = np.where(missing, np.where(both, 0.0, 1.0), np.minimum(np.abs(apart), 1.0))
    return np.asarray((distance**2).sum(axis=2))


def _locate_value(dimension: Dimension, value: Any) -> float:
    if isinstance(dimension, Choices):
        return [encode(choice) for choice in dimension.choices].index(value)
    low, high, number = dimension.low, dimension.high, value
    if dimension.log:
        low, high, number = math.log(low), math.log(high), math.log(number)
    return float((number - low) / (high - low))
