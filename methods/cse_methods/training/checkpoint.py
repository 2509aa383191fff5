"""Checkpoints: everything a trial needs to resume bit for bit, and the best encoder so far."""

import hashlib
import math
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer

from cse_methods.config import TrainingConfig
from cse_methods.contract import BEST_FOLDER
from cse_methods.encoders.devices import copy_to_host
from cse_methods.encoders.loading import SentenceEncoder
from cse_methods.errors import CheckpointError
from cse_methods.training.divergence import DivergenceWatch
from cse_methods.training.objective import Objective
from cse_methods.training.optimizers import restore_optimizer
from cse_methods.training.schedule import Schedule
from cse_methods.training.student import Student

STATE_FILE = "training.pt"
_STATEFUL = ("student", "objective", "optimizer", "scaler")
"""Fields of `TrainingState` with a `state_dict`, in the order of a checkpoint."""


@dataclass
class TrainingState:
    """Everything that an optimiser step changes, and the settings that it depends on."""

    config: TrainingConfig
    seed: int
    schedule: Schedule
    student: Student
    objective: Objective
    optimizer: Optimizer
    scaler: torch.amp.GradScaler
    step: int = 0
    watch: DivergenceWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = DivergenceWatch(self.config, self.schedule)


def fingerprint(config: TrainingConfig, seed: int) -> str:
    """Hash a configuration and a seed; a checkpoint with another hash is of another trial.

    `data` and the paths of own dev sets are excluded, because folders may move between starts.
    """
    settings = config.model_dump_json(exclude={"data": True, "dev": {"files"}})
    return hashlib.sha256(f"{settings} {seed}".encode()).hexdigest()


@dataclass
class Best:
    """The best encoder so far, by the metric that picks the checkpoint.

    It is saved in a temporary folder of its own, whose files are linked into every checkpoint.
    Until a trained step has a dev score that is not NaN, there is none and `metrics` is empty.
    """

    metric: str
    step: int = 0
    """The step of the best encoder; 0 if there is none."""
    metrics: dict[str, float] = field(default_factory=dict)
    folder: "tempfile.TemporaryDirectory[str] | None" = None

    def consider(self, step: int, metrics: dict[str, float], encoder: SentenceEncoder) -> None:
        """Keep `encoder` if it is better than all before; ties go to the earliest."""
        # NaN compares False with everything, so it is never kept.
        if metrics[self.metric] > self.metrics.get(self.metric, -math.inf):
            self.step, self.metrics = step, dict(metrics)
            encoder.save(self.open_folder())

    def is_final(self, step: int, total: int, config: TrainingConfig) -> bool:
        """Whether no step is left, or as many dev points as `patience` have passed since then."""
        since_best = math.ceil((step - self.step) / config.eval_steps)
        return step >= total or (config.patience is not None and since_best >= config.patience)

    def open_folder(self) -> Path:
        """Return an empty folder for a new best encoder.

        The previous folder is deleted once no pending copy of a checkpoint needs it.
        """
        self.folder = tempfile.TemporaryDirectory(prefix="cse-best-")
        return Path(self.folder.name)


@dataclass(frozen=True)
class SaveCheckpoint:
    """Writes the checkpoint of a dev point, at once or from a copy while training continues."""

    gather: Callable[[], dict[str, Any]]
    """Returns all state that training changes."""
    best: Best
    last: bool
    """Whether the trial ends with this dev point."""

    def __call__(self, folder: Path) -> None:
        _write_checkpoint(self._gather_state(), self.best.folder, folder)

    def copied(self) -> Callable[[Path], None]:
        """Copy all state that training changes. Returns a function that writes it in any thread."""
        return partial(_write_checkpoint, copy_to_host(self._gather_state()), self.best.folder)

    def _gather_state(self) -> dict[str, Any]:
        numpy: Any = np.random.get_state()
        kind, words, *others = numpy
        return {
            **self.gather(),
            "best_step": self.best.step,
            "best_metrics": self.best.metrics,
            "python_rng": random.getstate(),
            "numpy_rng": (kind, words.tolist(), *others),
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }


def _write_checkpoint(
    gathered: dict[str, Any], best: "tempfile.TemporaryDirectory[str] | None", folder: Path
) -> None:
    """Write a checkpoint; the training state comes last, so its file marks completeness."""
    folder.mkdir(parents=True, exist_ok=True)
    if best is not None:
        target = folder / BEST_FOLDER
        shutil.copytree(best.name, target, copy_function=_link_file, dirs_exist_ok=True)
    unfinished = folder / f"{STATE_FILE}.part"
    torch.save(gathered, unfinished)
    unfinished.rename(folder / STATE_FILE)


def _link_file(source: str, target: str) -> None:
    """Hard-link a file, which is never changed; copy it to another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def load_checkpoint(folder: Path, state: TrainingState, best: Best) -> None:
    """Restore `state` and `best` from the checkpoint in `folder`; errors as `read_checkpoint`."""
    stored = read_checkpoint(folder, fingerprint(state.config, state.seed), best)
    for name in _STATEFUL:
        if name != "optimizer":
            getattr(state, name).load_state_dict(stored[name])
    restore_optimizer(state.optimizer, stored["optimizer"])
    state.step = stored["step"]
    random.setstate(stored["python_rng"])
    np.random.set_state(stored["numpy_rng"])
    torch.set_rng_state(stored["rng"])
    torch.cuda.set_rng_state_all(stored["cuda_rng"][: torch.cuda.device_count()])


def gather_state(state: TrainingState) -> dict[str, Any]:
    """Collect what a checkpoint holds of a state; `SaveCheckpoint` adds the rest."""
    return {
        "fingerprint": fingerprint(state.config, state.seed),
        **{name: getattr(state, name).state_dict() for name in _STATEFUL},
        "step": state.step,
    }


def read_checkpoint(folder: Path, expected: str, best: Best) -> dict[str, Any]:
    """Read the checkpoint in `folder`, and restore `best` from it.

    CheckpointError if it is incomplete, or its fingerprint is not the expected one.
    """
    stored = _read_state(folder)
    if stored["fingerprint"] != expected:
        raise CheckpointError(
            f"{folder} is a checkpoint of another configuration or seed; "
            "start this trial without it"
        )
    best.step, best.metrics = stored["best_step"], stored["best_metrics"]
    if best.metrics:
        source, target = folder / BEST_FOLDER, best.open_folder()
        shutil.copytree(source, target, copy_function=_link_file, dirs_exist_ok=True)
    return stored


def _read_state(folder: Path) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = torch.load(
            folder / STATE_FILE, weights_only=True, map_location="cpu"
        )
    except (OSError, RuntimeError, EOFError, UnpicklingError) as problem:
        missing = isinstance(problem, FileNotFoundError)
        reason = f"it has no {STATE_FILE}" if missing else f"its {STATE_FILE} cannot be read"
        raise CheckpointError(
            f"{folder} is an incomplete checkpoint: {reason}; "
            "resume from an earlier one, or start over"
        ) from problem
    if stored["best_metrics"] and not (folder / BEST_FOLDER).is_dir():
        raise CheckpointError(
            f"{folder} is an incomplete checkpoint: it has no folder {BEST_FOLDER}; "
            "resume from an earlier one, or start over"
        )
    return stored
