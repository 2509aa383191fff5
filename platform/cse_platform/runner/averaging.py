"""Average the weights of a confirmed configuration's seeds, and record the average as a trial."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import ray
from pyarrow.fs import LocalFileSystem

from cse_methods.contract import BEST_FOLDER, TrainingConfig
from cse_platform.render.formats import percent, signed_percent
from cse_platform.runner.confirmation import Seeds, dev_values, seeds_to_average
from cse_platform.runner.evaluation import explain_missing_model, iter_ended_tasks
from cse_platform.runner.failures import one_line
from cse_platform.runner.models import keep_model, local_copy, wait_for_room
from cse_platform.runner.own_folders import OwnFolders
from cse_platform.runner.planner import build_sweep_fields
from cse_platform.runner.state import SweepState
from cse_platform.runner.worker import prepare_process
from cse_platform.secrets import mask_text
from cse_platform.sweep.identity import ConfigurationIdentity
from cse_platform.tracking.events import TrialFinished, TrialPoint, TrialStarted

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AverageTask:
    """What a worker needs to average the weights of some trials."""

    trials: tuple[tuple[str, str], ...]
    """The location of each model, and the key of its trial."""
    key: str
    """The key of the average."""
    place: str
    """The location of its model."""
    beat: float
    """The dev score that the average must exceed for its model to be kept."""


@dataclass(frozen=True)
class AveragedModel:
    """The dev metrics of an average, and what became of its model."""

    metrics: dict[str, float]
    model: str | None
    """The location of its model, which is kept only if it beats the best of its seeds."""
    problem: str | None
    """Why a model that is better could not be kept; None if nothing prevented it."""
    seconds: float


def average_confirmed(state: SweepState, *, heed: Callable[[], None]) -> None:
    """Average the seeds of each confirmed configuration in a separate process; record averages.

    `heed` is called every second and handles requests to the sweep. A configuration that cannot be
    averaged costs a warning, not the sweep.
    """
    slot, spec = state.spec.resources.slot, state.spec
    own_tests = [] if spec.evaluate is None else [own.file for own in spec.evaluate.files.values()]
    average = ray.remote(max_calls=1)(average_in_worker).options(
        num_cpus=slot.cpu,
        num_gpus=slot.gpu,
        **({} if state.nodes is None else state.nodes.task_options),
    )
    running = {}
    for seeds in find_averageable(state):
        settings = spec.config_of(seeds[0].values).model_dump(mode="json")
        asked = settings | {"own_tests": own_tests}
        task = make_task(seeds, state.folders)
        running[average.remote(task, spec.method, asked, slot.threads)] = seeds
    for done, seeds in iter_ended_tasks(running, heed=heed):
        try:
            averaged = ray.get(done)
        except Exception as error:  # whatever a worker raises, the seeds are trained
            warn_not_averaged(seeds, one_line(error))
        else:
            record_average(state, seeds, averaged)


def find_averageable(state: SweepState) -> list[Seeds]:
    """List the seeds of each configuration to average; warn where a seed's model is missing."""
    found = []
    for seeds in seeds_to_average(state.history, state.spec):
        missing = [trial for trial in seeds if trial.model is None]
        if missing:
            why = f"trial {missing[0].number}: {explain_missing_model(missing[0])}"
            warn_not_averaged(seeds, why)
        else:
            found.append(seeds)
    return found


def warn_not_averaged(seeds: Seeds, why: str) -> None:
    """Warn that the weights of these trials were not averaged."""
    _log.warning("the weights of %s were not averaged: %s", _list_numbers(seeds), mask_text(why))


def _list_numbers(seeds: Seeds) -> str:
    return f"trials {', '.join(str(trial.number) for trial in seeds)}"


def make_task(seeds: Seeds, folders: OwnFolders) -> AverageTask:
    """Make the task of averaging these seeds, each of which has a model."""
    in_order = sorted(seeds, key=lambda trial: trial.key)
    key = identify_average(seeds).key(_choose_seed(seeds))
    return AverageTask(
        trials=tuple((trial.model or "", trial.key) for trial in in_order),
        key=key,
        place=folders.model_location(key),
        beat=max(dev_values(seeds)),
    )


def identify_average(seeds: Seeds) -> ConfigurationIdentity:
    """Compute the identity of an average, which depends only on the trials that it averages."""
    return ConfigurationIdentity({"averages": sorted(trial.key for trial in seeds)})


def _choose_seed(seeds: Seeds) -> int:
    """Choose the seed under which the average is recorded; the order of seeds does not matter."""
    return min(trial.seed for trial in seeds)


def average_in_worker(
    task: AverageTask, method: str, settings: Mapping[str, Any], threads: int
) -> AveragedModel:
    """Average models in a process that can open no test set and writes to no store."""
    _, config = prepare_process(method, settings, threads=threads)
    assert isinstance(config, TrainingConfig)  # the sweep's file was checked
    return average_models(task, config)


def average_models(task: AverageTask, config: TrainingConfig) -> AveragedModel:
    """Average the weights of the trials, score them on dev, and keep the model if it is better.

    Raises:
        BackboneError: if a model cannot be read, or the weights differ in names or shapes.
        NotFoundError: if the location of a model holds another model.
    """
    from cse_methods.encoders.averaging import average_encoders
    from cse_methods.encoders.devices import default_device
    from cse_methods.training.dev_evaluation import DevSuite

    started, problem = time.perf_counter(), None
    with ExitStack() as opened:
        folders = [opened.enter_context(local_copy(*model)) for model in task.trials]
        encoder = average_encoders(folders, attention=config.attention).to(default_device())
    dev = DevSuite(config.dev, data=config.data, arithmetic=config.arithmetic)
    metrics = dev.evaluate(encoder)
    is_better = metrics[config.dev.search_metric] > task.beat
    if is_better:
        with TemporaryDirectory(prefix="cse-average-") as folder:
            encoder.save(Path(folder) / BEST_FOLDER)
            problem = wait_for_room(
                lambda: keep_model(LocalFileSystem(), folder, task.place, trial=task.key),
                what="the average of seeds",
            )
    model = task.place if is_better and problem is None else None
    return AveragedModel(metrics, model, problem, time.perf_counter() - started)


def record_average(state: SweepState, seeds: Seeds, averaged: AveragedModel) -> None:
    """Record an average as a trial: its start, one dev point, and its end.

    The model is already stored. An average whose dev score is NaN is not recorded, with a warning.
    """
    value = averaged.metrics[state.spec.dev.search_metric]
    if math.isnan(value):
        warn_not_averaged(seeds, "the dev score of their average is no number")
        return
    if averaged.problem is not None:
        why = mask_text(averaged.problem)
        _log.warning("the average of %s cannot be kept: %s", _list_numbers(seeds), why)
    history, first, identity = state.history, seeds[0], identify_average(seeds)
    seed = _choose_seed(seeds)
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
            gpus=state.spec.resources.slot.gpu,
        )
    )
    values = dev_values(seeds)
    state.say(
        f"the average of the weights of {_list_numbers(seeds)} has dev {percent(value)}, "
        f"{signed_percent(value - fmean(values))} against the mean of their scores and "
        f"{signed_percent(value - max(values))} against the best"
    )
