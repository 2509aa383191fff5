"""Optuna's Gaussian process, which learns from pruned trials too."""

import copy
from collections.abc import Container
from typing import Any, cast

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import GPSampler
from optuna.trial import FrozenTrial, TrialState


class GpOfPruned(GPSampler):
    """A Gaussian process for which a pruned trial has ended with its last dev point.

    Optuna's own does not see pruned trials, and so proposes their neighbours again and again.
    """

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return super().infer_relative_search_space(_with_pruned(study), trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return super().sample_relative(_with_pruned(study), trial, search_space)


def _with_pruned(study: Study) -> Study:
    return cast(Study, _StudyWithPruned(study))


class _StudyWithPruned:
    """A study whose pruned trials look complete."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        trials = map(_as_complete, self._study._get_trials(deepcopy=deepcopy, use_cache=use_cache))
        return [trial for trial in trials if states is None or trial.state in states]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._study, name)


def _as_complete(trial: FrozenTrial) -> FrozenTrial:
    if trial.state != TrialState.PRUNED or not trial.intermediate_values:
        return trial
    shown = copy.copy(trial)
    shown.state = TrialState.COMPLETE
    shown.value = trial.intermediate_values[max(trial.intermediate_values)]
    return shown
