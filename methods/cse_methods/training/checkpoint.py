"""Checkpoints: all that a trial needs to go on bit for bit, and the best encoder so far."""

import hashlib
import math
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch.optim import Optimizer

from cse_methods.contract import BEST_FOLDER, TrainingConfig
from cse_methods.encoders.encoder import Encoder
from cse_methods.errors import CheckpointError
from cse_methods.training.objective import Objective
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

    The encoder lies in a temporary folder, whole, and is copied into every checkpoint. While no
    trained step had a dev score that is a number, there is none, and `metrics` is empty.
    """

    metric: str
    step: int = 0
    """The step of the best, 0 while there is none."""
    metrics: dict[str, float] = field(default_factory=dict)
    _folder: "tempfile.TemporaryDirectory[str] | None" = None

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="cse-best-")
        return Path(self._folder.name)

    def is_out_of_patience(self, step: int, config: TrainingConfig) -> bool:
        """Whether as many dev points as `config.patience` have passed since the best, at `step`."""
        points = math.ceil((step - self.step) / config.eval_steps)
        return config.patience is not None and points >= config.patience

    def consider(self, step: int, metrics: dict[str, float], encoder: Encoder) -> None:
        """Keep `encoder` if it is better than all before; the earliest of equals stays."""
        # NaN is greater than nothing, so it is never kept.
        if metrics[self.metric] > self.metrics.get(self.metric, -math.inf):
            self.step, self.metrics = step, dict(metrics)
            encoder.save(self.folder)


def save_checkpoint(folder: Path, state: TrainingState, best: Best) -> None:
    """Write a checkpoint into `folder`, which is empty or not there yet.

    The training state comes last, so it marks the checkpoint as whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if best.metrics:
        shutil.copytree(best.folder, folder / BEST_FOLDER)
    unfinished = folder / f"{STATE_FILE}.part"
    torch.save(_everything(state, best), unfinished)
    unfinished.rename(folder / STATE_FILE)


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
        getattr(state, name).load_state_dict(stored[name])
    state.step = stored["step"]
    best.step, best.metrics = stored["best_step"], stored["best_metrics"]
    if best.metrics:
        shutil.copytree(folder / BEST_FOLDER, best.folder, dirs_exist_ok=True)
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
