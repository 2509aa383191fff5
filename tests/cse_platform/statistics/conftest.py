from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.stats import spearmanr

from cse_platform.leaderboard.statistics.intervals import Contender

PAIRS = {"stsb": 150, "sickr": 100}


@pytest.fixture
def contender() -> Callable[..., Contender]:
    """Makes one by name: `noise` per seed; gold is the same for all."""

    def make(name: str, noise: Sequence[float], tasks: Sequence[str] = tuple(PAIRS)) -> Contender:
        gold = {task: np.random.default_rng(PAIRS[task]).normal(size=PAIRS[task]) for task in tasks}
        rng = np.random.default_rng(list(name.encode()))
        cosines = {
            task: np.array([truth + rng.normal(scale=one, size=len(truth)) for one in noise])
            for task, truth in gold.items()
        }
        scores = {
            task: [float(spearmanr(gold[task], row).statistic) for row in rows]
            for task, rows in cosines.items()
        }
        return Contender(name, scores, cosines, gold)

    return make
