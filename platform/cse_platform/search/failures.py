"""What failures tell a search: they are shown as the worst, and their neighbourhood is left."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from cse_platform.search.coordinates import build_coordinates, measure_distances
from cse_platform.stores.optuna.trials import FAILURE_CAUSE, RETRY_OF, encode_point
from cse_platform.sweep.space.space import Space

SHOWN_AS_WORST = "shown_as_worst"
"""User attribute of a failure as a sampler sees it; it is never stored."""


def show_failures(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Show failures to a sampler as complete trials with the lowest finite value so far.

    Failures are trials that failed of their own configuration and were not tried again, and trials
    whose value is not finite. Before any trial has a finite value there is no lowest one, and a
    sampler sees none of them.
    """
    values = [value for trial in trials if (value := read_value(trial)) is not None]
    worst = min(filter(math.isfinite, values), default=None)
    shown = list(trials)
    for index in np.flatnonzero(_find_failures(trials)).tolist():
        shown[index] = changed = copy.copy(trials[index])
        changed.state = TrialState.FAIL if worst is None else TrialState.COMPLETE
        changed.value = worst
        changed.user_attrs = {**changed.user_attrs, SHOWN_AS_WORST: True}
    return shown


def _find_failures(trials: Sequence[FrozenTrial]) -> list[bool]:
    """Find the failures, as `show_failures` says, among trials that include all retries."""
    tried_again = {trial.user_attrs.get(RETRY_OF) for trial in trials}
    failures = []
    for trial in trials:
        failed = trial.state == TrialState.FAIL and trial.number not in tried_again
        own = failed and trial.user_attrs.get(FAILURE_CAUSE) in ("error", "trial")
        value = read_value(trial)
        failures.append(own or (value is not None and not math.isfinite(value)))
    return failures


def read_value(trial: FrozenTrial) -> float | None:
    """Read the value of a trial; of a pruned one, its last dev point. None if it has none."""
    if trial.state == TrialState.PRUNED and trial.intermediate_values:
        return trial.intermediate_values[max(trial.intermediate_values)]
    return trial.value if trial.state == TrialState.COMPLETE else None


NEIGHBOURS = 3
"""The number of nearest trials that tell whether a configuration fails."""


class FailurePredictor:
    """Predicts that a configuration fails if most of its nearest trials have failed.

    It is the rule of the nearest neighbours (Cover & Hart 1967, Nearest neighbor pattern
    classification), with `NEIGHBOURS` of them. Trials that run say nothing, nor do failures of
    another cause than the configuration.
    """

    def __init__(self, trials: Sequence[FrozenTrial], space: Space) -> None:
        known = [
            (trial, failure)
            for trial, failure in zip(trials, _find_failures(trials), strict=True)
            if failure or trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
        ]
        self._space, self._failures = space, np.array([failure for _, failure in known], dtype=bool)
        failed = self._failures.sum()
        self._can_predict = NEIGHBOURS // 2 < failed < len(known)
        if self._can_predict:
            self._coordinates = build_coordinates([trial.params for trial, _ in known], space)

    def predicts_failure(self, point: Mapping[str, Any]) -> bool:
        """Return True if most of the nearest trials have failed; False without enough trials."""
        if not self._can_predict:
            return False
        coordinates = build_coordinates([encode_point(point)], self._space)
        (distances,) = measure_distances(coordinates, self._coordinates)
        nearest = distances.argsort(kind="stable")[:NEIGHBOURS]
        return bool(self._failures[nearest].sum() > NEIGHBOURS / 2)
