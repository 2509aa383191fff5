"""The sampler `cmaes`: CMA-ES, whose state is recomputed from the trials at each draw."""

from collections import defaultdict
from typing import Any

import numpy as np
from optuna import Study
from optuna._transform import _SearchSpaceTransform
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState

GENERATION = "cma:generation"
"""System attribute of a trial with the generation in which it was drawn, as Optuna names it."""


class ReplayedCmaEs(BaseSampler):
    """CMA-ES over the numeric dimensions that all trials have; a TPE draws the others.

    Optuna's sampler pickles its state into the study and unpickles it, so that a journal from
    elsewhere, from which a study is replayed, could run code in the driver. The recomputed state
    also fits the dimensions that all trials have in common now, where Optuna's sampler gives up.
    The study maximizes.
    """

    def __init__(self, *, seed: int) -> None:
        self._seed = seed
        self._independent = TPESampler(seed=seed, multivariate=False)
        self._common = IntersectionSearchSpace()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the numeric dimensions of more than one value that all trials have."""
        common = self._common.calculate(study)
        return {
            name: distribution
            for name, distribution in common.items()
            if isinstance(distribution, FloatDistribution | IntDistribution)
            and not distribution.single()
        }

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw a point from the current generation, and note on the trial which one that is."""
        from cmaes import CMA  # imports scipy.stats, which takes a second

        complete = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        if not search_space or not complete:
            return {}
        transform = _SearchSpaceTransform(search_space, transform_0_1=True)
        optimizer = CMA(
            mean=np.full(len(search_space), 0.5),
            sigma=1 / 6,
            bounds=transform.bounds,
            seed=self._seed,
            n_max_resampling=10 * len(search_space),
        )
        members: dict[int, list[FrozenTrial]] = defaultdict(list)
        for drawn in complete:
            members[drawn.system_attrs.get(GENERATION, -1)].append(drawn)
        size = optimizer.population_size
        while len(generation := members[optimizer.generation]) >= size:
            optimizer.tell(
                [(transform.transform(t.params), -float(t.value or 0.0)) for t in generation[:size]]
            )
        trial.system_attrs[GENERATION] = optimizer.generation
        return transform.untransform(optimizer.ask())

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Let a TPE draw a choice, or a dimension that not all trials have."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)
