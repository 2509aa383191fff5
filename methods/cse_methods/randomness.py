"""Seeds the random generators of Python and NumPy for each trial.

The training loop seeds torch's generators. Generators that a method creates itself are not
affected.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_SEEDS = 2**32
"""Number of seeds that NumPy accepts."""


@contextmanager
def generators_kept() -> Iterator[None]:
    """Restore the states of both generators afterwards."""
    before = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed both generators, and restore their previous states afterwards."""
    with generators_kept():
        random.seed(seed)
        np.random.seed(seed % _SEEDS)
        yield
