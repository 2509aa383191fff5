"""Builds Optuna's samplers from a sweep file's settings."""

import warnings
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import (
    BaseSampler,
    NSGAIIISampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)
from optuna.trial import FrozenTrial

from cse_platform.search.distributions import distribution
from cse_platform.search.samplers.cmaes import ReplayedCmaEs
from cse_platform.search.samplers.gaussian import NoisyGp
from cse_platform.sweep import samplers
from cse_platform.sweep.blocks import Search
from cse_platform.sweep.samplers import chosen
from cse_platform.sweep.space.space import Space


def sampler(
    search: Search,
    space: Space,
    *,
    trial: int,
    dimension: int,
    attempt: int = 0,
    objectives: int = 1,
) -> BaseSampler:
    """Build a fresh sampler for one draw, seeded by (search seed, trial, dimension, attempt).

    Only the study carries state from draw to draw, so a restarted search continues the same
    sequence. That of `qmc` is counted by the study itself, and has one seed.
    """
    draw = [search.seed, trial, dimension] + [attempt] * (attempt > 0)
    seed = int(np.random.SeedSequence(draw).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        suited = chosen(search.sampler, space, trial=trial, objectives=objectives)
        if isinstance(suited, samplers.Qmc):
            return _Qmc(space, seed=search.seed, qmc_type=suited.sequence, scramble=suited.scramble)
        return _build_sampler(suited, seed, objectives)


def _build_sampler(sampler: samplers.Sampler, seed: int, objectives: int) -> BaseSampler:
    match sampler:
        case samplers.Tpe():
            joint = objectives == 1 if sampler.joint is None else sampler.joint
            return TPESampler(
                seed=seed,
                n_startup_trials=sampler.startup_trials,
                n_ei_candidates=sampler.candidates,
                multivariate=joint,
                # In groups, because dimensions with a `when` do not stand beside all others.
                group=joint,
                constant_liar=sampler.count_running,
            )
        case samplers.Gp():
            return NoisyGp(
                seed=seed,
                n_startup_trials=sampler.startup_trials,
                deterministic_objective=sampler.deterministic,
                independent_sampler=_build_independent_sampler(seed, sampler.startup_trials),
                warn_independent_sampling=False,
            )
        case samplers.CmaEs():
            return ReplayedCmaEs(
                seed=seed,
                n_startup_trials=sampler.startup_trials,
                popsize=sampler.population,
                use_separable_cma=sampler.separable,
                with_margin=sampler.margin,
                lr_adapt=sampler.adapt_rate,
                consider_pruned_trials=sampler.count_pruned,
                independent_sampler=_build_independent_sampler(
                    seed, max(sampler.startup_trials, 10)
                ),
                warn_independent_sampling=False,
            )
        case samplers.NsgaII():
            return NSGAIISampler(seed=seed, **_list_genetic_options(sampler))
        case samplers.NsgaIII():
            return NSGAIIISampler(
                seed=seed, dividing_parameter=sampler.divisions, **_list_genetic_options(sampler)
            )
        case _:
            return RandomSampler(seed=seed)


def _build_independent_sampler(seed: int, startup_trials: int) -> BaseSampler:
    """Build the sampler for what whole vectors leave out: choices for CMA-ES, and conditions."""
    return TPESampler(seed=seed, n_startup_trials=startup_trials, multivariate=False)


def _list_genetic_options(sampler: samplers.NsgaII | samplers.NsgaIII) -> dict[str, Any]:
    return {
        "population_size": sampler.population,
        "crossover_prob": sampler.crossover_probability,
        "swapping_prob": sampler.swapping_probability,
        "mutation_prob": sampler.mutation_probability,
    }


class _Qmc(QMCSampler):
    """A sequence in all dimensions of the space; Optuna's own has those of the first trial."""

    def __init__(self, space: Space, **options: Any) -> None:
        super().__init__(**options)
        distributions = {name: distribution(space[name]) for name in sorted(space)}
        self._space = {name: dist for name, dist in distributions.items() if not dist.single()}

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._space
