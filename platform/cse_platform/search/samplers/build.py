"""Build the sampler that a sweep file names."""

import warnings

import numpy as np
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from cse_platform.search.samplers.cmaes import ReplayedCmaEs
from cse_platform.search.samplers.gp import NoisyGp
from cse_platform.search.samplers.qmc import WholeSpaceQmc
from cse_platform.sweep.blocks import Search
from cse_platform.sweep.samplers import Auto, CmaEs, Gp, Qmc, Sampler, Tpe
from cse_platform.sweep.space.space import Space

AUTO_GP_TRIALS = 250
"""How many trials `auto` leaves to the Gaussian process, whose cost is cubic in their number."""


def build_sampler(
    search: Search, space: Space, *, trial: int, dimension: int, attempt: int = 0
) -> BaseSampler:
    """Build a fresh sampler for one draw, seeded by (search seed, trial, dimension, attempt).

    Only the study carries state between draws, so a restarted search continues the same sequence.
    `qmc` always has the search seed: the study itself counts the position in its sequence.
    """
    draw = [search.seed, trial, dimension] + [attempt] * (attempt > 0)
    seed = int(np.random.SeedSequence(draw).generate_state(1)[0])
    options = choose_sampler(search.sampler, space, trial=trial)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        match options:
            case Tpe():
                return TPESampler(
                    seed=seed,
                    n_startup_trials=options.startup_trials,
                    multivariate=True,
                    # Because conditional dimensions do not occur together with all others.
                    group=True,
                    constant_liar=True,  # running trials count as bad ones
                )
            case Gp():
                return NoisyGp(options, seed=seed)
            case CmaEs():
                return ReplayedCmaEs(seed=seed)
            case Qmc():
                return WholeSpaceQmc(space, seed=search.seed)
            case _:
                return RandomSampler(seed=seed)


def choose_sampler(sampler: Sampler, space: Space, *, trial: int) -> Sampler:
    """Return the sampler of the trial with this number; only `auto` depends on it.

    `auto` is `gp` for the first `AUTO_GP_TRIALS` trials of a search without conditions, because a
    Gaussian process needs the fewest trials. Otherwise it is `tpe`: a Gaussian process ignores
    conditional dimensions, and is slow with many trials.
    """
    if not isinstance(sampler, Auto):
        return sampler
    conditional = any(dimension.when for _, dimension in space.items())
    return Tpe() if conditional or trial >= AUTO_GP_TRIALS else Gp()
