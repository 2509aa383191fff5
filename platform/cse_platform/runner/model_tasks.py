"""Score and average kept models in workers, which write to no store.

This module imports nothing of a driver.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cse_methods.contract import BEST_FOLDER, TrainingConfig
from cse_methods.data.overlap import TrainingData
from cse_methods.tasks import Tasks
from cse_platform.gc_settings import collect_rarely
from cse_platform.kept_models import keep_model, local_copy
from cse_platform.runner.worker import prepare_gpus, prepare_process

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Evaluation


def score_kept_model(
    location: str,
    trial: str,
    tasks: Tasks,
    training: TrainingData,
    data: str | None,
    slicing_length: int | None,
    threads: int,
) -> "Evaluation":
    """Score the kept model of a trial on test sets, in a process that trains nothing."""
    collect_rarely()
    prepare_gpus()
    import torch

    from cse_methods.evaluation.evaluate import evaluate
    from cse_methods.evaluation.models import open_model

    torch.set_num_threads(threads)
    with local_copy(location, trial) as folder:
        model = open_model(str(folder), slicing_length=slicing_length)
        return evaluate(model, tasks, data=data, training=training)


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


def average_kept_models(
    task: AverageTask, method: str, settings: Mapping[str, Any], threads: int
) -> AveragedModel:
    """Average models in a process that can open no test set, as `average_models` does."""
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
            problem = keep_model(folder, task.place, trial=task.key)
    model = task.place if is_better and problem is None else None
    return AveragedModel(metrics, model, problem, time.perf_counter() - started)
