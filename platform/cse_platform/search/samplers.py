"""Optuna's samplers and pruners, as a sweep file names them."""

import warnings

import numpy as np
import optuna.pruners as optuna_pruners
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from cse_platform.sweep import pruners
from cse_platform.sweep.blocks import Search


def sampler(search: Search, *, trial: int, dimension: int = 0) -> BaseSampler:
    """A fresh sampler for one draw, seeded by (search seed, trial, dimension).

    Nothing is carried from draw to draw, so a restarted search continues the same sequence.
    """
    seed = int(np.random.SeedSequence([search.seed, trial, dimension]).generate_state(1)[0])
    if search.sampler == "tpe":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            # In groups, because dimensions with a `when` do not stand beside all others.
            return TPESampler(seed=seed, multivariate=True, group=True)
    return RandomSampler(seed=seed)


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
