"""The sampler `cmaes`: CMA-ES, whose state is recomputed from the trials at each draw."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState

GENERATION = "cma:generation"
"""System attribute of a trial with the generation in which it was drawn, as Optuna names it."""

Numeric = FloatDistribution | IntDistribution


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
            if isinstance(distribution, Numeric) and not distribution.single()
        }

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw a point from the current generation, and note on the trial which one that is."""
        from cmaes import CMA  # imports scipy.stats, which takes a second

        complete = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        space = {name: d for name, d in search_space.items() if isinstance(d, Numeric)}
        if not space or not complete:
            return {}
        optimizer = CMA(
            mean=np.full(len(space), 0.5),
            sigma=1 / 6,
            bounds=np.tile([0.0, 1.0], (len(space), 1)),
            seed=self._seed,
            n_max_resampling=10 * len(space),
        )
        members: dict[int, list[FrozenTrial]] = defaultdict(list)
        for drawn in complete:
            members[drawn.system_attrs.get(GENERATION, -1)].append(drawn)
        size = optimizer.population_size
        while len(generation := members[optimizer.generation]) >= size:
            optimizer.tell(
                [(_normalize(t.params, space), -float(t.value or 0.0)) for t in generation[:size]]
            )
        trial.system_attrs[GENERATION] = optimizer.generation
        return _restore(optimizer.ask(), space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Let a TPE draw a choice, or a dimension that not all trials have."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)


def _find_bounds(distribution: Numeric) -> tuple[float, float]:
    """Return what 0 and 1 stand for: each value of a grid is in the middle of a step."""
    half = (distribution.step or 0) / 2
    low, high = distribution.low - half, distribution.high + half
    return (math.log(low), math.log(high)) if distribution.log else (low, high)


def _normalize(params: Mapping[str, Any], space: Mapping[str, Numeric]) -> NDArray[np.float64]:
    """Map values to [0, 1], logarithmic ones by their logarithm; shape (dimensions,)."""
    point = []
    for name, distribution in space.items():
        low, high = _find_bounds(distribution)
        value = math.log(params[name]) if distribution.log else params[name]
        point.append((value - low) / (high - low))
    return np.array(point)


def _restore(point: NDArray[np.float64], space: Mapping[str, Numeric]) -> dict[str, Any]:
    """Map a point of [0, 1] back to values, each on its grid."""
    values: dict[str, Any] = {}
    for share, (name, distribution) in zip(point.tolist(), space.items(), strict=True):
        low, high = _find_bounds(distribution)
        value = low + share * (high - low)
        value = math.exp(value) if distribution.log else value
        if distribution.step is not None:
            steps = round((value - distribution.low) / distribution.step)
            value = distribution.low + steps * distribution.step
        value = min(max(value, distribution.low), distribution.high)
        values[name] = int(value) if isinstance(distribution, IntDistribution) else value
    return values
