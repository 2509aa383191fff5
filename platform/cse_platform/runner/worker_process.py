"""Lets a worker's process run one trial after another, each as if the process were new."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from traceback import walk_tb
from typing import Any

import ray
from ray import tune
from ray.tune.trainable import wrap_function

from cse_methods.allocator import return_freed_memory
from cse_platform.errors import WorkerBusyError
from cse_platform.runner.failures import report_of
from cse_platform.tracking.provenance import reset_peak_memory

FAILURE = "failure"
"""The entry of a last result that says what the method has raised."""

_FRESH_SEED = 67280421310721
"""Torch's generators have this seed before anyone sets one."""


def reusable(function: Callable[[dict[str, Any]], Any]) -> type:
    """Make a trainable of a function that Tune can run, whose process runs further trials.

    It tells the driver what the function raises, and that ends its process: what has failed once,
    such as a GPU, can fail the next trial.
    """

    @wraps(function)
    def run_and_report(settings: dict[str, Any]) -> Any:
        try:
            return function(settings)
        except BaseException as error:
            if _is_stopped_by_tune(error):
                raise
            tune.report({FAILURE: report_of(error)})
        # Not the error itself: Ray would pickle it, and the driver may not have what it needs.
        raise RuntimeError("the method has failed, and the driver was told")

    class Reusable(wrap_function(run_and_report)):  # type: ignore[misc]  # Ray is untyped
        def reset_config(self, new_config: dict[str, Any]) -> bool:
            """Prepare for the next trial, once the thread of the one before has ended.

            Where Ray's own returns False, it ends the next trial without a word to the scheduler.
            An exception is reported, and the trial starts elsewhere.
            """
            if super().reset_config(new_config):
                return True
            raise WorkerBusyError("the trial before went on after it had been stopped")

    Reusable.__name__ = function.__name__
    return Reusable


def hide_unassigned_gpus() -> None:
    """Hide every GPU from this process, unless Ray has assigned it one.

    Ray shows a worker that asks for no GPU all those of its node, and methods take one that they
    see. Call it before torch looks for GPUs.
    """
    if ray.is_initialized() and not ray.get_runtime_context().get_accelerator_ids()["GPU"]:
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            os.environ[name] = ""


def _is_stopped_by_tune(error: BaseException) -> bool:
    """Whether an error is the exit that Tune raises in a report of a trial that it has stopped."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    raised_by = frames[-1].f_globals.get("__name__", "")
    return isinstance(error, SystemExit) and str(raised_by).startswith("ray.")


@contextmanager
def as_found() -> Iterator[None]:
    """Reset the process at the end of a trial, so that the next one finds it like a new one.

    Memory goes back, torch's generators have their first seed again, and the peak of memory counts
    anew. State in the modules of a method is not touched.
    """
    reset_peak_memory()
    try:
        yield
    finally:
        gc.collect()  # modules and their autograd graphs hold cycles
        if torch := sys.modules.get("torch"):
            torch.manual_seed(_FRESH_SEED)
            torch.cuda.empty_cache()  # does nothing where CUDA was not used
        return_freed_memory()
