"""The sampler `qmc`: Optuna's, over all dimensions of the space."""

from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import QMCSampler
from optuna.trial import FrozenTrial

from cse_platform.stores.optuna.distributions import build_distribution
from cse_platform.sweep.samplers import Qmc
from cse_platform.sweep.space.space import Space


def build_qmc(options: Qmc, space: Space, *, seed: int) -> "WholeSpaceQmc":
    """Build the sampler; the study stores the position in the sequence."""
    return WholeSpaceQmc(space, seed=seed, qmc_type=options.sequence, scramble=options.scramble)


class WholeSpaceQmc(QMCSampler):
    """A quasi-random sequence over all dimensions; Optuna's covers only the first trial's."""

    def __init__(self, space: Space, **options: Any) -> None:
        super().__init__(**options)
        distributions = {name: build_distribution(space[name]) for name in sorted(space)}
        self._space = {name: dist for name, dist in distributions.items() if not dist.single()}

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._space
