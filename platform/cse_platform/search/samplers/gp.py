"""The sampler `gp`: Optuna's Gaussian process, which does not aim at lucky scores."""

from typing import TYPE_CHECKING, Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import GPSampler, TPESampler
from optuna.trial import FrozenTrial
from threadpoolctl import threadpool_limits

from cse_platform.sweep.samplers import Gp

if TYPE_CHECKING:
    from optuna._gp.acqf import BaseAcquisitionFunc


class NoisyGp(GPSampler):
    """A Gaussian process for noisy scores; `fitting.show_to_gp` says which trials it sees.

    It proposes what may exceed the highest *expected* score of those tried, and not the highest
    *score*, which is a lucky one (the plug-in of Vazquez et al. 2008, Global optimization based
    on noisy evaluations; compared by Picheny et al. 2013, A benchmark of kriging-based infill
    criteria for noisy optimization). Once a trial has failed, Optuna's constraint keeps it away
    from where trials fail. A TPE draws dimensions with a `when`, which not every point has.
    """

    def __init__(self, options: Gp, *, seed: int) -> None:
        startup = options.startup_trials
        super().__init__(
            seed=seed,
            n_startup_trials=startup,
            independent_sampler=TPESampler(seed=seed, n_startup_trials=startup, multivariate=False),
            warn_independent_sampling=False,
        )

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Sample as Optuna's own does, on one thread.

        Its matrices are too small to be shared: two threads that wait for each other take three
        times the CPU, are no sooner done, and keep a core from the trials.
        """
        import torch  # noqa: F401 -- only the threads of libraries that are loaded can be limited

        with threadpool_limits(1):
            return super().sample_relative(study, trial, search_space)

    def _optimize_acqf(
        self, acqf: "BaseAcquisitionFunc", best_params: np.ndarray | None
    ) -> np.ndarray:
        import torch

        improvement: Any = getattr(acqf, "_acqf", acqf)  # once a trial has failed, a part of it
        if self._gprs_cache_list:
            (model,) = self._gprs_cache_list
            with torch.no_grad():
                expected, _ = model.posterior(model._X_train)
            improvement._threshold = float(expected.max())
            best_params = model._X_train[[int(expected.argmax())]].numpy()
        return super()._optimize_acqf(acqf, best_params)
