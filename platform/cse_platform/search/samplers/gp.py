"""The sampler `gp`: a Gaussian process for noisy scores, which learns from pruned trials too."""

import copy
from collections.abc import Container
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import GPSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState
from threadpoolctl import threadpool_limits

from cse_platform.search.samplers.fitting import adjust_values, find_failures, select_trials
from cse_platform.sweep.samplers import Gp

if TYPE_CHECKING:
    from optuna._gp.acqf import BaseAcquisitionFunc, LogPI
    from optuna._gp.search_space import SearchSpace


def build_gp(options: Gp, *, seed: int) -> "NoisyGp":
    """Build the sampler. A TPE draws dimensions with a `when`, which not every point has."""
    return NoisyGp(
        seed=seed,
        n_startup_trials=options.startup_trials,
        independent_sampler=TPESampler(
            seed=seed, n_startup_trials=options.startup_trials, multivariate=False
        ),
        warn_independent_sampling=False,
    )


class NoisyGp(GPSampler):
    """A Gaussian process that does not aim at lucky scores, and sees pruned trials.

    It differs from Optuna's own in five ways:

    - It proposes what may exceed the highest *expected* score of those tried, and not the highest
      *score*, which is a lucky one (the plug-in of Vazquez et al. 2008, Global optimization based
      on noisy evaluations; compared by Picheny et al. 2013, A benchmark of kriging-based infill
      criteria for noisy optimization).
    - A pruned trial has ended with its last dev point. Optuna's does not see pruned trials, and so
      proposes their neighbours again and again.
    - Values far below the others are raised to a floor, and failures, which are shown with the
      worst score, count as the median (`fitting.adjust_values`).
    - A second Gaussian process keeps away from where trials fail
      (`feasibility.FeasibleAcquisition`).
    - Of many trials it is fitted to some (`fitting.select_trials`).
    """

    _feasibility: "LogPI | None" = None

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return super().infer_relative_search_space(cast(Study, StudyWithPruned(study)), trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Sample as Optuna's own does, on one thread.

        Its matrices are too small to be shared: two threads that wait for each other take three
        times the CPU, are no sooner done, and keep a core from the trials.
        """
        import torch  # noqa: F401 -- only the threads of libraries that are loaded can be limited

        with threadpool_limits(1):
            return super().sample_relative(cast(Study, StudyWithPruned(study)), trial, search_space)

    def _sample_relative_impl(
        self,
        study: Study,
        completed_trials: list[FrozenTrial],
        running_trials: list[FrozenTrial],
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        from optuna._gp.search_space import SearchSpace

        space = SearchSpace(search_space)
        fitted = select_trials(adjust_values(completed_trials))
        self._feasibility = self._fit_feasibility(fitted, space)
        return super()._sample_relative_impl(study, fitted, running_trials, search_space)

    def _fit_feasibility(self, trials: list[FrozenTrial], space: "SearchSpace") -> "LogPI | None":
        """Fit the logarithm of the probability that a configuration does not fail.

        Returns:
            None if either none or all of the trials failed.
        """
        from optuna._gp.acqf import LogPI
        from optuna._gp.gp import fit_kernel_params

        failed = find_failures(trials)
        if not failed.any() or failed.all():
            return None
        # Labels of mean 0 and standard deviation 1; the border is half-way between the two.
        labels = np.where(failed, -1.0, 1.0)
        mean, deviation = labels.mean(), labels.std()
        model = fit_kernel_params(
            X=space.get_normalized_params(trials),
            Y=(labels - mean) / deviation,
            is_categorical=space.is_categorical,
            log_prior=self._log_prior,
            minimum_noise=self._minimum_noise,
            deterministic_objective=self._deterministic,
        )
        return LogPI(model, space, float(-mean / deviation))

    def _optimize_acqf(
        self, acqf: "BaseAcquisitionFunc", best_params: np.ndarray | None
    ) -> np.ndarray:
        import torch
        from optuna._gp.acqf import LogEI, qLogEI

        from cse_platform.search.samplers.feasibility import FeasibleAcquisition

        if isinstance(acqf, LogEI | qLogEI) and self._gprs_cache_list:
            (model,) = self._gprs_cache_list
            with torch.no_grad():
                expected, _ = model.posterior(model._X_train)
            acqf._threshold = float(expected.max())
            best_params = model._X_train[[int(expected.argmax())]].numpy()
        if self._feasibility is not None:
            acqf = FeasibleAcquisition(acqf, self._feasibility)
        return super()._optimize_acqf(acqf, best_params)


class StudyWithPruned:
    """A study whose pruned trials look complete. It has the part that `GPSampler` uses."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._study_id, self._storage = study._study_id, study._storage
        self.directions = study.directions

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        trials = list(self._study._get_trials(deepcopy=deepcopy, use_cache=use_cache))
        for index, trial in enumerate(trials):
            if trial.state == TrialState.PRUNED and trial.intermediate_values:
                trials[index] = shown = copy.copy(trial)
                shown.state = TrialState.COMPLETE
                shown.value = trial.intermediate_values[max(trial.intermediate_values)]
        return [trial for trial in trials if states is None or trial.state in states]
