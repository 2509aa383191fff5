"""The sampler `cmaes`: Optuna's, without its pickled state."""

from collections import defaultdict
from typing import Any

import numpy as np
from optuna import Study
from optuna._transform import _SearchSpaceTransform
from optuna.distributions import BaseDistribution
from optuna.samplers import CmaEsSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

VECTOR = "x_for_tell"
"""Optuna's system attribute of a trial with the point that CMA-ES drew for it."""


def build_cmaes(*, seed: int) -> "ReplayedCmaEs":
    """Build the sampler. TPE draws choices and conditional dimensions, which CMA-ES cannot."""
    return ReplayedCmaEs(
        seed=seed,
        independent_sampler=TPESampler(seed=seed, multivariate=False),
        warn_independent_sampling=False,
    )


class ReplayedCmaEs(CmaEsSampler):
    """CMA-ES whose state is recomputed from the trials at each draw.

    Optuna's sampler pickles its state into the study and unpickles it, so that a journal from
    elsewhere, from which a study is replayed, could run code in the driver. The recomputed state
    also fits the dimensions that all trials have in common now, where Optuna's sampler gives up.
    """

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Sample as Optuna's sampler does; ValueError for several objectives."""
        self._raise_error_if_multi_objective(study)
        self._asked = study.direction, search_space
        return super().sample_relative(study, trial, search_space)

    def _restore_optimizer(self, completed_trials: list[FrozenTrial]) -> Any:
        direction, space = self._asked
        transform = _SearchSpaceTransform(space, transform_0_1=True)
        optimizer = self._init_optimizer(transform, direction)
        sign = 1 if direction == StudyDirection.MINIMIZE else -1
        members: dict[int, list[FrozenTrial]] = defaultdict(list)
        for trial in completed_trials:
            members[trial.system_attrs.get(self._attr_key_generation, -1)].append(trial)
        while len(generation := members[optimizer.generation]) >= optimizer.population_size:
            told = []
            for trial in generation[: optimizer.population_size]:
                kept = trial.system_attrs.get(VECTOR)
                vector = transform.transform(trial.params) if kept is None else np.array(kept)
                told.append((vector, sign * float(trial.value or 0.0)))
            optimizer.tell(told)
        return optimizer
