"""Optuna's samplers, as a sweep file names them."""

import warnings

import numpy as np
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from cse_platform.sweep.blocks import Search


def sampler(search: Search, *, trial: int, dimension: int = 0) -> BaseSampler:
    """A fresh sampler for one draw, seeded by (search seed, trial, dimension).

    Nothing is carried from draw to draw, so a restarted search continues the same sequence.
    """
    seed = int(np.random.SeedSequence([search.seed, trial, dimension]).generate_state(1)[0])
    if search.sampler == "tpe":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            # In groups, because dimensions with a `when` do not stand beside all others.
            return TPESampler(seed=seed, multivariate=True, group=True)
    return RandomSampler(seed=seed)
