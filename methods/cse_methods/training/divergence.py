"""Ends a trial early if its loss is not finite, without making the host wait for the GPU."""

import math
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

import torch
from torch import Tensor

from cse_methods.contract import TrainingConfig
from cse_methods.encoders.devices import HostCopy
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
        self._copied: list[tuple[tuple[int, ...], HostCopy]] = []

    def add(self, step: int, parts: Iterable[Tensor]) -> None:
        """Add the parts of a step's loss. Raises TrainingError if an arrived loss has diverged."""
        self._uncopied += [(step, part) for part in parts]
        first, tensor = self._uncopied[0]
        if not tensor.is_cuda or step - first == STEPS_A_LOOK - 1:
            self._copy_losses()
        while self._copied and self._copied[0][1].has_arrived():
            self._check_losses()

    def finish(self) -> None:
        """Wait for all losses and check them. Raises TrainingError if one is not finite."""
        if self._uncopied:
            self._copy_losses()
        while self._copied:
            self._check_losses()

    def _copy_losses(self) -> None:
        steps, parts = zip(*self._uncopied, strict=True)
        self._copied.append((steps, HostCopy(torch.stack(parts))))
        self._uncopied = []

    def _check_losses(self) -> None:
        steps, copy = self._copied.pop(0)
        for step, parts in groupby(zip(steps, copy.read(), strict=True), key=itemgetter(0)):
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
