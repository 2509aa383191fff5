"""Seeds the random generators of Python and NumPy for each trial, and keeps them in checkpoints.

The training loop seeds torch's generators. Generators that a method creates itself are not
affected.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_SEEDS = 2**32
"""Number of seeds that NumPy accepts."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed both generators, and restore their previous states afterwards."""
    before = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % _SEEDS)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def random_states() -> dict[str, Any]:
    numpy: Any = np.random.get_state()
    kind, words, *rest = numpy
    return {"python_rng": random.getstate(), "numpy_rng": (kind, words.tolist(), *rest)}


def restore_random_states(stored: dict[str, Any]) -> None:
    random.setstate(stored["python_rng"])
    np.random.set_state(stored["numpy_rng"])
