"""Ends a trial early when its loss is not finite, without a wait of the host for the device."""

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
"""The steps whose losses are copied from a GPU together."""


class DivergenceWatch:
    """Looks at the loss of each step.

    On a CPU a loss is there with its step. On a GPU the losses of `STEPS_A_LOOK` steps are copied
    to the host together, and are looked at once they have arrived, some steps later.

    Args:
        config: the settings, of which the error names those that help.
        schedule: what the learning rate of a step follows from.
    """

    def __init__(self, config: TrainingConfig, schedule: Schedule) -> None:
        self._config, self._schedule = config, schedule
        self._uncopied: list[tuple[int, Tensor]] = []
        """Parts of losses with their steps."""
        self._copied: list[tuple[tuple[int, ...], HostCopy]] = []

    def add(self, step: int, parts: Iterable[Tensor]) -> None:
        """Take the parts of a step's loss; TrainingError if one that has arrived diverged."""
        self._uncopied += [(step, part) for part in parts]
        first, tensor = self._uncopied[0]
        if not tensor.is_cuda or step - first == STEPS_A_LOOK - 1:
            self._copy_losses()
        while self._copied and self._copied[0][1].has_arrived():
            self._check_losses()

    def finish(self) -> None:
        """Look at all losses so far, and wait for them; TrainingError if one is not finite."""
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
            if not math.isfinite(loss):
                raise TrainingError(self._explain(step, loss))

    def _explain(self, step: int, loss: float) -> str:
        """Say where the loss diverged, with the settings that it can follow from, and what to try.

        float16 ends at 65,504, where bfloat16 and float32 reach 3e38.
        """
        rate = self._config.learning_rate * self._schedule.learning_rate_factor(step - 1)
        ways = ["a lower learning_rate", f"a warmup_ratio above {self._config.warmup_ratio:g}"]
        if self._config.precision != "fp32":
            ways.append(f"precision: {'bf16' if self._config.precision == 'fp16' else 'fp32'}")
        return (
            f"diverged: the loss is {loss} at step {step}, with learning_rate "
            f"{self._config.learning_rate:g} ({rate:.3g} at that step), warmup_ratio "
            f"{self._config.warmup_ratio:g} and precision {self._config.precision}; try "
            f"{', '.join(ways[:-1])} or {ways[-1]}"
        )
