"""Builds Optuna's pruners from a sweep file's settings.

`SearchStudy.report` feeds them curves that do not fall, without step 0.
"""

import optuna
import optuna.pruners as optuna_pruners
from optuna.trial import FrozenTrial

from cse_platform.sweep import pruners


def pruner(spec: pruners.Pruner) -> optuna_pruners.BasePruner:
    """Build the pruner of a sweep; its steps are optimiser steps."""
    match spec:
        case pruners.SuccessiveHalvingPruner():
            return optuna_pruners.SuccessiveHalvingPruner(
                min_resource=spec.min_step,
                reduction_factor=spec.reduction_factor,
                min_early_stopping_rate=spec.min_early_stopping_rate,
                bootstrap_count=spec.bootstrap_trials,
            )
        case pruners.HyperbandPruner():
            return optuna_pruners.HyperbandPruner(
                min_resource=spec.min_step,
                max_resource=spec.max_step or "auto",
                reduction_factor=spec.reduction_factor,
            )
        case pruners.MedianPruner() | pruners.PercentilePruner():
            return optuna_pruners.PercentilePruner(
                spec.percentile,
                n_startup_trials=spec.startup_trials,
                n_warmup_steps=spec.min_step,
                interval_steps=spec.interval_steps,
                n_min_trials=spec.min_trials,
            )
        case pruners.ThresholdPruner():
            return optuna_pruners.ThresholdPruner(
                lower=spec.lower,
                n_warmup_steps=spec.min_step,
                interval_steps=spec.interval_steps,
            )
        case pruners.PatientPruner():
            return Patience(spec, None if spec.pruner is None else pruner(spec.pruner))
        case pruners.NoPruner() | pruners.CurvePruner():  # the latter's rule is `curve.py`
            return optuna_pruners.NopPruner()


class Patience(optuna_pruners.BasePruner):
    """Stops a trial that came no higher for some points.

    Optuna's own looks for a fall, which the highest value so far never shows.
    """

    def __init__(self, spec: pruners.PatientPruner, then: optuna_pruners.BasePruner | None) -> None:
        self.spec, self.then = spec, then

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return True if the trial came no higher, and the pruner that then decides stops it."""
        points = sorted(trial.intermediate_values.items())
        if len(points) <= self.spec.patience or points[-1][0] < self.spec.min_step:
            return False
        values = [value for _, value in points]
        if values[-1] > values[-1 - self.spec.patience] + self.spec.min_rise:
            return False
        return self.then is None or self.then.prune(study, trial)
