"""Checkpoints: all that a trial needs to go on bit for bit, and the best encoder so far."""

import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch.optim import Optimizer

from cse_methods.contract import BEST_FOLDER, TrainingConfig
from cse_methods.encoders.devices import copy_to_host
from cse_methods.encoders.encoder import Encoder
from cse_methods.errors import CheckpointError
from cse_methods.training.objective import Objective
from cse_methods.training.optimizers import restore_optimizer
from cse_methods.training.randomness import random_states, restore_random_states
from cse_methods.training.schedule import Schedule
from cse_methods.training.student import Student

STATE_FILE = "training.pt"
_STATEFUL = ("student", "objective", "optimizer", "scaler")
"""Fields of `TrainingState` that have a `state_dict`, in the order of a checkpoint."""


@dataclass
class TrainingState:
    """Everything that an optimiser step changes, and what it follows from."""

    config: TrainingConfig
    seed: int
    schedule: Schedule
    student: Student
    objective: Objective
    optimizer: Optimizer
    scaler: torch.amp.GradScaler
    step: int = 0

    @property
    def fingerprint(self) -> str:
        """Hash of configuration and seed: a checkpoint of another trial is refused.

        `data` and the places of own dev sets may differ, because a folder may move between starts.
        """
        settings = self.config.model_dump_json(exclude={"data": True, "dev": {"files"}})
        return hashlib.sha256(f"{settings} {self.seed}".encode()).hexdigest()


@dataclass
class Best:
    """The best encoder so far, by the metric that picks the checkpoint.

    The encoder lies in a temporary folder of its own, whole, whose files are linked into every
    checkpoint. While no trained step had a dev score that is a number, there is none, and `metrics`
    is empty.
    """

    metric: str
    step: int = 0
    """The step of the best, 0 while there is none."""
    metrics: dict[str, float] = field(default_factory=dict)
    folder: "tempfile.TemporaryDirectory[str] | None" = None

    def is_out_of_patience(self, step: int, config: TrainingConfig) -> bool:
        """Whether as many dev points as `config.patience` have passed since the best, at `step`."""
        points = math.ceil((step - self.step) / config.eval_steps)
        return config.patience is not None and points >= config.patience

    def consider(self, step: int, metrics: dict[str, float], encoder: Encoder) -> None:
        """Keep `encoder` if it is better than all before; the earliest of equals stays."""
        # NaN is greater than nothing, so it is never kept.
        if metrics[self.metric] > self.metrics.get(self.metric, -math.inf):
            self.step, self.metrics = step, dict(metrics)
            encoder.save(self.open_folder())

    def open_folder(self) -> Path:
        """An empty folder for the best encoder, in place of the one before.

        That is deleted once no copy of a checkpoint that is still to be written needs it.
        """
        self.folder = tempfile.TemporaryDirectory(prefix="cse-best-")
        return Path(self.folder.name)


@dataclass(frozen=True)
class SaveCheckpoint:
    """Writes the checkpoint of a dev point: now, or from a copy while training goes on."""

    state: TrainingState
    best: Best
    last: bool
    """Whether the trial ends with this dev point."""

    def __call__(self, folder: Path) -> None:
        """Write a checkpoint into `folder`, which is empty or not there yet."""
        _write(_everything(self.state, self.best), self.best.folder, folder)

    def copied(self) -> Callable[[Path], None]:
        """Copy all that training will change; what is returned writes it, in any thread."""
        return partial(_write, copy_to_host(_everything(self.state, self.best)), self.best.folder)


def _write(
    everything: dict[str, Any], best: "tempfile.TemporaryDirectory[str] | None", folder: Path
) -> None:
    """The training state comes last, so it marks the checkpoint as whole."""
    folder.mkdir(parents=True, exist_ok=True)
    if best is not None:
        _link_folder(Path(best.name), folder / BEST_FOLDER)
    unfinished = folder / f"{STATE_FILE}.part"
    torch.save(everything, unfinished)
    unfinished.rename(folder / STATE_FILE)


def _link_folder(source: Path, target: Path) -> None:
    """Give the files of a folder, which nobody changes, a second name; copies on another disk."""
    shutil.copytree(source, target, copy_function=_link_file, dirs_exist_ok=True)


def _link_file(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def load_checkpoint(folder: Path, state: TrainingState, best: Best) -> None:
    """Bring `state` and `best` to where the checkpoint in `folder` was written.

    Raises:
        CheckpointError: if it is not whole, or of another configuration or seed.
    """
    stored = _read(folder)
    if stored["fingerprint"] != state.fingerprint:
        raise CheckpointError(
            f"{folder} is a checkpoint of another configuration or seed; "
            "start this trial without it"
        )
    for name in _STATEFUL:
        if name != "optimizer":
            getattr(state, name).load_state_dict(stored[name])
    restore_optimizer(state.optimizer, stored["optimizer"])
    state.step = stored["step"]
    best.step, best.metrics = stored["best_step"], stored["best_metrics"]
    if best.metrics:
        _link_folder(folder / BEST_FOLDER, best.open_folder())
    restore_random_states(stored)
    torch.set_rng_state(stored["rng"])
    torch.cuda.set_rng_state_all(stored["cuda_rng"][: torch.cuda.device_count()])


def _read(folder: Path) -> dict[str, Any]:
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


def _everything(state: TrainingState, best: Best) -> dict[str, Any]:
    return {
        "fingerprint": state.fingerprint,
        **{name: getattr(state, name).state_dict() for name in _STATEFUL},
        "step": state.step,
        "best_step": best.step,
        "best_metrics": best.metrics,
        **random_states(),
        "rng": torch.get_rng_state(),
        "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
