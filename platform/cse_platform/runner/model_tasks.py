"""Score kept models in workers, which write to no store.

This module imports nothing of a driver.
"""

from typing import TYPE_CHECKING

from cse_methods.data.overlap import TrainingData
from cse_methods.tasks import Tasks
from cse_platform.gc_settings import collect_rarely
from cse_platform.kept_models import local_copy
from cse_platform.runner.worker import prepare_gpus

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
