"""A method as a function that Ray Tune can run; what happens in a trial's worker."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ray import tune

from cse_methods.registry import get_method

RESERVED = frozenset({"seed", "resume_from"})
"""Entries of `param_space` that are not settings of the method."""


def trainable(method: str) -> Callable[[dict[str, Any]], dict[str, float]]:
    """A method as a Tune function, for this package's sweeps and for anyone's script.

    `param_space` holds `seed` (0 if left out), the settings of the method (`backbone`, `corpus`,
    `data`, `dev` and hyperparameters), and optionally `resume_from`, a checkpoint folder. Every
    report has `step`, the metrics of `Run.report` and `provenance`, and from the first trained
    step on a checkpoint.

    Args:
        method: as in a sweep file.

    Raises:
        UnknownMethodError: if there is no such method.
    """
    get_method(method)

    def run_trial(settings: dict[str, Any]) -> dict[str, float]:
        _use_assigned_threads()
        found = get_method(method)
        given = {name: value for name, value in settings.items() if name not in RESERVED}
        config = found.config.model_validate(given)
        run = TuneRun(settings.get("seed", 0), settings.get("resume_from"), config)
        return found.train(config, run)

    run_trial.__name__ = method
    return run_trial


class TuneRun:
    """`Run` inside a Tune worker.

    Args:
        seed: of the trial.
        resume_from: place of a checkpoint of a former start of this trial; one that Tune itself
            has (after `Tuner.restore`) is newer and wins.
        config: of the trial, for the provenance.
    """

    def __init__(self, seed: int, resume_from: str | None, config: Any) -> None:
        from cse_platform.tracking.provenance import trial_provenance

        self.seed = seed
        self.resume_from = _fetched(resume_from)
        self._started = time.perf_counter()
        self._provenance = lambda: trial_provenance(
            device=_device(),
            precision=config.precision,
            attention=config.attention,
            threads=_threads(),
        )

    def report(
        self,
        *,
        step: int,
        metrics: Mapping[str, float],
        save: Callable[[Path], None] | None = None,
    ) -> None:
        """Publish one dev point to Tune; the trial can end here."""
        result = {
            "step": step,
            **metrics,
            "perf/wall_seconds": time.perf_counter() - self._started,
            "provenance": self._provenance(),
        }
        if save is None:
            tune.report(result)
            return
        with tempfile.TemporaryDirectory(prefix="cse-checkpoint-") as folder:
            save(Path(folder))
            tune.report(result, checkpoint=tune.Checkpoint.from_directory(folder))


def _fetched(place: str | None) -> Path | None:
    """A local folder with the checkpoint; one from an object store is downloaded."""
    checkpoint = tune.get_checkpoint()
    if checkpoint is None and place is None:
        return None
    if checkpoint is None:
        from cse_platform.runner.models import filesystem

        files, path = filesystem(str(place))
        checkpoint = tune.Checkpoint(path, filesystem=files)
    folder: str = checkpoint.to_directory()
    return Path(folder)


def _threads() -> int:
    """CPU threads of this trial: the CPUs it was given, at least one."""
    resources = tune.get_context().get_trial_resources()
    assigned = resources.required_resources.get("CPU") if resources is not None else None
    return max(1, int(assigned or os.cpu_count() or 1))


def _use_assigned_threads() -> None:
    import torch

    torch.set_num_threads(_threads())


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
