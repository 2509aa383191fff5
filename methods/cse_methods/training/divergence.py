"""Ends a trial early if its loss is not finite, without making the host wait for the GPU."""

import math
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

import torch
from torch import Tensor

from cse_methods.config import TrainingConfig
from cse_methods.errors import TrainingError
from cse_methods.training.schedule import Schedule

STEPS_A_LOOK = 10
"""Number of steps whose losses are copied from a GPU together."""


class DivergenceWatch:
    """Checks the loss of each step.

    On a CPU, a loss is checked at its step. On a GPU, the losses of `STEPS_A_LOOK` steps are copied
    to the host together, and are checked when they have arrived, some steps later.

    Args:
        config: the settings; the error names those that can help.
        schedule: determines the learning rate of a step.
    """

    def __init__(self, config: TrainingConfig, schedule: Schedule) -> None:
        self._config, self._schedule = config, schedule
        self._uncopied: list[tuple[int, Tensor]] = []
        """Steps, and parts of their losses, that are still on the device."""
        self._copied: list[tuple[tuple[int, ...], Tensor, torch.cuda.Event | None]] = []
        """Steps, their losses in the host's memory, and what says that these have arrived."""

    def add(self, step: int, parts: Iterable[Tensor]) -> None:
        """Add the parts of a step's loss. Raises TrainingError if an arrived loss has diverged."""
        self._uncopied += [(step, part) for part in parts]
        first, tensor = self._uncopied[0]
        if not tensor.is_cuda or step - first == STEPS_A_LOOK - 1:
            self._copy_losses()
        while self._copied:
            arrived = self._copied[0][2]
            if arrived is not None and not arrived.query():  # type: ignore[no-untyped-call]
                break
            self._check_losses()

    def finish(self) -> None:
        """Wait for all losses and check them. Raises TrainingError if one is not finite."""
        if self._uncopied:
            self._copy_losses()
        while self._copied:
            self._check_losses()

    def _copy_losses(self) -> None:
        steps, parts = zip(*self._uncopied, strict=True)
        losses = torch.stack(parts)
        arrived = torch.cuda.Event() if losses.is_cuda else None  # type: ignore[no-untyped-call]
        # Into memory that PyTorch pins, through the GPU's own queue.
        copied = losses.to("cpu", non_blocking=True)
        if arrived is not None:
            arrived.record()
        self._copied.append((steps, copied, arrived))
        self._uncopied = []

    def _check_losses(self) -> None:
        steps, losses, arrived = self._copied.pop(0)
        if arrived is not None:
            arrived.synchronize()
        for step, parts in groupby(zip(steps, losses.tolist(), strict=True), key=itemgetter(0)):
            loss = sum(value for _, value in parts)
            if math.isfinite(loss):
                continue
            # The largest float16 is 65,504; bfloat16 and float32 reach 3e38.
            config, factor = self._config, self._schedule.learning_rate_factor(step - 1)
            ways = ["a lower learning_rate", f"a warmup_ratio above {config.warmup_ratio:g}"]
            if config.precision != "fp32":
                ways.append(f"precision: {'bf16' if config.precision == 'fp16' else 'fp32'}")
            raise TrainingError(
                f"diverged: the loss is {loss} at step {step}, with learning_rate "
                f"{config.learning_rate:g} ({config.learning_rate * factor:.3g} at that step), "
                f"warmup_ratio {config.warmup_ratio:g} and precision {config.precision}; try "
                f"{', '.join(ways[:-1])} or {ways[-1]}"
            )
