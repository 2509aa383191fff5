"""The random numbers of Python and NumPy: seeded for each trial, and kept in its checkpoints.

Those of torch are seeded by the training loop. A generator that a method makes for itself follows
from nothing here.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_SEEDS = 2**32
"""NumPy takes so many seeds."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed both, and put back afterwards what they were before."""
    before = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % _SEEDS)
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def random_states() -> dict[str, Any]:
    """Both states, as plain numbers."""
    numpy: Any = np.random.get_state()
    kind, words, *rest = numpy
    return {"python_rng": random.getstate(), "numpy_rng": (kind, words.tolist(), *rest)}


def restore_random_states(stored: dict[str, Any]) -> None:
    """Bring both to where they were; those of a checkpoint that lacks them stay as they are."""
    if "python_rng" in stored:
        random.setstate(stored["python_rng"])
        np.random.set_state(stored["numpy_rng"])
