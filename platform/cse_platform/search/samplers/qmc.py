"""The sampler `qmc`: Optuna's, over all dimensions of the space."""

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import QMCSampler
from optuna.trial import FrozenTrial

from cse_platform.stores.optuna.trials import build_distribution
from cse_platform.sweep.space.space import Space


class WholeSpaceQmc(QMCSampler):
    """A scrambled Sobol sequence over all dimensions; Optuna's covers only the first trial's.

    The study stores the position in the sequence.
    """

    def __init__(self, space: Space, *, seed: int) -> None:
        super().__init__(seed=seed, scramble=True)
        distributions = {name: build_distribution(space[name]) for name in sorted(space)}
        self._space = {name: dist for name, dist in distributions.items() if not dist.single()}

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._space
