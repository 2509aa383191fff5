"""Optuna's pruners, as a sweep file names them.

What they compare is told by `SearchStudy.report`: no step 0, and curves that do not fall.
"""

import optuna.pruners as optuna_pruners

from cse_platform.sweep import pruners


def pruner(spec: pruners.Pruner) -> optuna_pruners.BasePruner:
    """The pruner of a sweep; its steps are optimiser steps."""
    match spec:
        case pruners.MedianPruner():
            return optuna_pruners.MedianPruner(
                n_startup_trials=spec.startup_trials,
                n_warmup_steps=spec.min_step,
                interval_steps=spec.interval_steps,
                n_min_trials=spec.min_trials,
            )
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
        case pruners.NoPruner():
            return optuna_pruners.NopPruner()
