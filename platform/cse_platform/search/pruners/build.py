"""Build the pruner that a sweep file names.

`SearchStudy.judge` shows pruners the best value so far at each step, without step 0.
"""

import optuna.pruners as optuna_pruners

from cse_platform.search.pruners.hyperband import ReplayedHyperband
from cse_platform.search.pruners.patient import StagnationPruner
from cse_platform.sweep import pruners


def build_pruner(spec: pruners.Pruner) -> optuna_pruners.BasePruner:
    """Build the pruner of a sweep; all steps are optimiser steps."""
    match spec:
        case pruners.SuccessiveHalvingPruner():
            return optuna_pruners.SuccessiveHalvingPruner(
                min_resource=spec.min_step, reduction_factor=spec.reduction_factor
            )
        case pruners.HyperbandPruner():
            return ReplayedHyperband(
                min_resource=spec.min_step,
                max_resource=spec.max_step or "auto",
                reduction_factor=spec.reduction_factor,
            )
        case pruners.MedianPruner():
            return optuna_pruners.MedianPruner(
                n_startup_trials=spec.startup_trials, n_warmup_steps=spec.min_step
            )
        case pruners.ThresholdPruner():
            return optuna_pruners.ThresholdPruner(lower=spec.lower, n_warmup_steps=spec.min_step)
        case pruners.PatientPruner():
            return StagnationPruner(spec)
        case pruners.NoPruner() | pruners.CurvePruner():  # `curve` is implemented in `curve.py`
            return optuna_pruners.NopPruner()
