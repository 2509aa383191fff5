"""What a failed trial tells a sampler: its configuration is as bad as the worst one so far.

Optuna's samplers pass failed trials over, and so propose where trials fail again and again. A
sampler is shown a copy; the study keeps the truth.
"""

import copy
import math
from collections.abc import Sequence

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

FAILURE_CAUSE = "failure_cause"
"""User attribute of a trial that failed, as of `TrialFinished`: what it failed of."""
RETRY_OF = "retry_of"
"""User attribute of a trial with the number of the one whose values it tries again."""
_CONSTRAINT = "constraints:"
"""How Optuna begins the system attribute of a constraint."""


def show_failures(
    trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]
) -> list[FrozenTrial]:
    """The trials for a sampler: failures as complete trials with the worst finite values so far.

    Shown so are trials that failed of their own configuration and were not tried again, and trials
    whose values are not finite. The worst is taken of each objective and each constraint for
    itself. Before any trial has finite values there is no worst, and a sampler sees none of them.
    """
    tried_again = {trial.user_attrs.get(RETRY_OF) for trial in trials}
    values = [found for trial in trials if (found := _values(trial)) and _are_finite(found)]
    worst = [
        max(column) if direction == StudyDirection.MINIMIZE else min(column)
        for column, direction in zip(zip(*values, strict=True), directions, strict=False)
    ]
    limits = _worst_constraints(trials)
    return [
        _as_worst(trial, worst, limits) if _failed(trial, tried_again) else trial
        for trial in trials
    ]


def _failed(trial: FrozenTrial, tried_again: set[int | None]) -> bool:
    if trial.state == TrialState.FAIL:
        own = trial.user_attrs.get(FAILURE_CAUSE) == "trial"
        return own and trial.number not in tried_again
    return not _are_finite([*(_values(trial) or ()), *trial.constraints.values()])


def _values(trial: FrozenTrial) -> list[float] | None:
    """What a trial came to: of a pruned one, its last dev point."""
    if trial.state == TrialState.PRUNED and trial.intermediate_values:
        return [trial.intermediate_values[max(trial.intermediate_values)]]
    return trial.values if trial.state == TrialState.COMPLETE else None


def _worst_constraints(trials: Sequence[FrozenTrial]) -> dict[str, float]:
    """By system attribute, how far a constraint was exceeded at most."""
    worst: dict[str, float] = {}
    for trial in trials:
        for name, excess in trial.constraints.items():
            if math.isfinite(excess):
                known = worst.get(_CONSTRAINT + name, excess)
                worst[_CONSTRAINT + name] = max(known, excess)
    return worst


def _as_worst(trial: FrozenTrial, worst: Sequence[float], limits: dict[str, float]) -> FrozenTrial:
    shown = copy.copy(trial)
    shown.state = TrialState.COMPLETE if worst else TrialState.FAIL
    shown.values = list(worst) or None
    shown.system_attrs = {**trial.system_attrs, **limits}
    return shown


def _are_finite(values: Sequence[float]) -> bool:
    return all(map(math.isfinite, values))
