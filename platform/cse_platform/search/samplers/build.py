"""Build the sampler that a sweep file names."""

import warnings
from typing import Any

import numpy as np
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, NSGAIIISampler, NSGAIISampler, RandomSampler, TPESampler

from cse_platform.search.samplers.cmaes import build_cmaes
from cse_platform.search.samplers.gp import build_gp
from cse_platform.search.samplers.qmc import build_qmc
from cse_platform.sweep.blocks import Search
from cse_platform.sweep.samplers import CmaEs, Gp, NsgaII, NsgaIII, Qmc, Tpe, choose_sampler
from cse_platform.sweep.space.space import Space


def build_sampler(
    search: Search,
    space: Space,
    *,
    trial: int,
    dimension: int,
    attempt: int = 0,
    objectives: int = 1,
) -> BaseSampler:
    """Build a fresh sampler for one draw, seeded by (search seed, trial, dimension, attempt).

    Only the study carries state between draws, so a restarted search continues the same sequence.
    `qmc` always has the search seed: the study itself counts the position in its sequence.
    """
    draw = [search.seed, trial, dimension] + [attempt] * (attempt > 0)
    seed = int(np.random.SeedSequence(draw).generate_state(1)[0])
    options = choose_sampler(search.sampler, space, trial=trial, objectives=objectives)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        match options:
            case Tpe():
                return _build_tpe(options, seed, joint=objectives == 1)
            case Gp():
                return build_gp(options, seed=seed)
            case CmaEs():
                return build_cmaes(options, seed=seed)
            case Qmc():
                return build_qmc(options, space, seed=search.seed)
            case NsgaII():
                return NSGAIISampler(seed=seed, **_list_genetic_options(options))
            case NsgaIII():
                genetic = _list_genetic_options(options)
                return NSGAIIISampler(seed=seed, dividing_parameter=options.divisions, **genetic)
            case _:
                return RandomSampler(seed=seed)


def _build_tpe(options: Tpe, seed: int, *, joint: bool) -> TPESampler:
    joint = joint if options.joint is None else options.joint
    return TPESampler(
        seed=seed,
        n_startup_trials=options.startup_trials,
        n_ei_candidates=options.candidates,
        multivariate=joint,
        # In groups, because conditional dimensions do not occur together with all others.
        group=joint,
        constant_liar=options.count_running,
    )


def _list_genetic_options(options: NsgaII | NsgaIII) -> dict[str, Any]:
    return {
        "population_size": options.population,
        "crossover_prob": options.crossover_probability,
        "swapping_prob": options.swapping_probability,
        "mutation_prob": options.mutation_probability,
    }
