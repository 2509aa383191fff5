"""Average the weights of a confirmed configuration's seeds, and record the average as a trial."""

import logging
import math
from collections.abc import Callable
from statistics import fmean
from typing import Any

from cse_platform.own_folders import OwnFolders
from cse_platform.render.table import percent, signed_percent
from cse_platform.runner.evaluation import explain_missing_model, iter_results, start_task
from cse_platform.runner.model_tasks import AveragedModel, AverageTask, average_kept_models
from cse_platform.runner.planner import build_sweep_fields
from cse_platform.runner.state import SweepState
from cse_platform.search.confirmation import dev_values, find_average, to_confirm
from cse_platform.secrets import mask_text
from cse_platform.sweep.identity import ConfigurationIdentity
from cse_platform.tracking.events import TrialFinished, TrialPoint, TrialStarted
from cse_platform.tracking.history import TrialHistory

Seeds = list[TrialHistory]
"""The complete trials of one configuration."""

_log = logging.getLogger(__name__)


def average_confirmed(state: SweepState, *, heed: Callable[[], None]) -> None:
    """Average the seeds of each confirmed configuration in a separate process; record averages.

    `heed` is called every second and handles requests to the sweep. A configuration that cannot be
    averaged costs a warning, not the sweep.
    """
    spec, running = state.spec, {}
    for seeds in find_averageable(state):
        settings = spec.config_of(seeds[0].values).model_dump(mode="json")
        config = settings | {"own_tests": spec.own_test_files}
        task = make_task(seeds, state.folders)
        arguments = (task, spec.method, config, spec.resources.threads)
        running[start_task(state, average_kept_models, *arguments, max_calls=1)] = seeds
    for seeds, averaged, error in iter_results(running, heed=heed):
        if error is not None:
            _warn_not_averaged(seeds, error)
        else:
            record_average(state, seeds, averaged)


def find_averageable(state: SweepState) -> list[Seeds]:
    """List the complete seeds of each confirmed configuration whose average is still missing.

    One with a seed whose model is missing is left out, with a warning.
    """
    history, confirm = state.history, state.spec.seeds.confirm
    if confirm is None or not confirm.average:
        return []
    averageable, complete = [], history.configurations()
    constraints = state.spec.search.constraints
    for first in to_confirm(history, top=confirm.top, constraints=constraints):
        seeds = complete[first.configuration]
        if len(seeds) < 2 or find_average(history, seeds) is not None:
            continue
        if missing := [trial for trial in seeds if trial.model is None]:
            why = f"trial {missing[0].number}: {explain_missing_model(missing[0])}"
            _warn_not_averaged(seeds, why)
        else:
            averageable.append(seeds)
    return averageable


def _warn_not_averaged(seeds: Seeds, why: str) -> None:
    _log.warning("the weights of %s were not averaged: %s", _list_numbers(seeds), mask_text(why))


def _list_numbers(seeds: Seeds) -> str:
    return f"trials {', '.join(str(trial.number) for trial in seeds)}"


def make_task(seeds: Seeds, folders: OwnFolders) -> AverageTask:
    """Make the task of averaging these seeds, each of which has a model."""
    identity, seed = _identify_average(seeds)
    key = identity.key(seed)
    return AverageTask(
        trials=tuple((t.model or "", t.key) for t in sorted(seeds, key=lambda t: t.key)),
        key=key,
        place=folders.model_location(key),
        beat=max(dev_values(seeds)),
    )


def _identify_average(seeds: Seeds) -> tuple[ConfigurationIdentity, int]:
    """Compute the identity of an average and its seed, whatever the order of its trials."""
    averaged = sorted(trial.key for trial in seeds)
    return ConfigurationIdentity({"averages": averaged}), min(trial.seed for trial in seeds)


def record_average(state: SweepState, seeds: Seeds, averaged: AveragedModel) -> None:
    """Record an average as a trial: its start, one dev point, and its end.

    The model is already stored. An average whose dev score is NaN is not recorded, with a warning.
    """
    value = averaged.metrics[state.spec.dev.search_metric]
    if math.isnan(value):
        _warn_not_averaged(seeds, "the dev score of their average is no number")
        return
    if averaged.problem is not None:
        why = mask_text(averaged.problem)
        _log.warning("the average of %s cannot be kept: %s", _list_numbers(seeds), why)
    history, first = state.history, seeds[0]
    identity, seed = _identify_average(seeds)
    key = identity.key(seed)
    known = history.trials.get(key)  # set if an earlier start was cut off while recording it
    step = max(trial.best_step or 0 for trial in seeds)
    of_trial: dict[str, Any] = {"sweep": state.spec.sweep, "trial": key}
    state.record(
        TrialStarted(
            trial=key,
            number=len(history.trials) if known is None else known.number,
            role="confirm",
            search_number=None,
            seed=seed,
            configuration=identity.hash,
            code=first.code,
            values=first.values,
            searched=first.searched,
            averages=tuple(sorted(trial.key for trial in seeds)),
            **build_sweep_fields(state),
        )
    )
    state.record(TrialPoint(**of_trial, step=step, value=value, metrics=averaged.metrics))
    state.record(
        TrialFinished(
            **of_trial,
            state="COMPLETE",
            best_step=step,
            best_value=value,
            best_metrics=averaged.metrics,
            model=averaged.model,
            wall_seconds=averaged.seconds,
            gpus=state.spec.resources.gpu,
        )
    )
    values = dev_values(seeds)
    state.say(
        f"the average of the weights of {_list_numbers(seeds)} has dev {percent(value)}, "
        f"{signed_percent(value - fmean(values))} against the mean of their scores and "
        f"{signed_percent(value - max(values))} against the best"
    )
