"""The loss of a trial: its mean between dev points, and an early end where it is not finite.

Neither makes the host wait for the GPU at each step.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import torch
from torch import Tensor

from cse_methods.config import TrainingConfig
from cse_methods.errors import DivergenceError
from cse_methods.training.schedule import Schedule

STEPS_A_LOOK = 10
"""Number of steps whose losses are copied from a GPU together."""


class DivergenceWatch:
    """Checks the loss of each step, and sums it up.

    On a CPU, a loss is checked at its step. On a GPU, the losses of `STEPS_A_LOOK` steps are copied
    to the host together, and are checked when they have arrived, some steps later.

    Args:
        config: the settings; the error names those that can help.
        schedule: determines the learning rate of a step.
    """

    def __init__(self, config: TrainingConfig, schedule: Schedule) -> None:
        self._config, self._schedule = config, schedule
        self._uncopied: list[tuple[int, str, Tensor]] = []
        """Steps, and parts of their losses by name, that are still on the device."""
        self._copied: list[
            tuple[tuple[int, ...], tuple[str, ...], Tensor, torch.cuda.Event | None]
        ] = []
        """Steps, names and values of parts in the host's memory, and what says that these have
        arrived."""
        self._finite: list[tuple[int, float]] = []
        """The first and the last finite loss, with their steps."""
        self._sums: dict[str, Tensor] = {}
        """Each part, summed over the steps since the last means."""

    def add(self, step: int, parts: Mapping[str, Tensor]) -> None:
        """Add the parts of a step's loss. Raises TrainingError if an arrived loss is not finite."""
        for name, part in parts.items():
            self._sums[name] = self._sums[name] + part if name in self._sums else part
        self._uncopied += [(step, name, part) for name, part in parts.items()]
        first, _, tensor = self._uncopied[0]
        if not tensor.is_cuda or step - first == STEPS_A_LOOK - 1:
            self._copy_losses()
        while self._copied:
            arrived = self._copied[0][3]
            if arrived is not None and not arrived.query():  # type: ignore[no-untyped-call]
                break
            self._check_losses()

    def means(self, steps: int) -> dict[str, float]:
        """Return `train/loss` and `train/loss_<part>`, the means over the last so many steps.

        Waits for all losses. Raises TrainingError if one is not finite, which a sum shows.
        """
        totals = torch.stack(list(self._sums.values())).tolist()
        if not math.isfinite(sum(totals)):
            if self._uncopied:
                self._copy_losses()
            while self._copied:
                self._check_losses()
        means = {
            f"train/loss_{name}": total / steps
            for name, total in zip(self._sums, totals, strict=True)
        }
        self._sums = {}
        return {"train/loss": sum(means.values()), **means}

    def _copy_losses(self) -> None:
        steps, names, parts = zip(*self._uncopied, strict=True)
        losses = torch.stack(parts)
        arrived = torch.cuda.Event() if losses.is_cuda else None  # type: ignore[no-untyped-call]
        # Into memory that PyTorch pins, through the GPU's own queue.
        copied = losses.to("cpu", non_blocking=True)
        if arrived is not None:
            arrived.record()
        self._copied.append((steps, names, copied, arrived))
        self._uncopied = []

    def _check_losses(self) -> None:
        steps, names, losses, arrived = self._copied.pop(0)
        if arrived is not None:
            arrived.synchronize()
        rows = zip(steps, names, losses.tolist(), strict=True)
        for step, row in groupby(rows, key=itemgetter(0)):
            parts = {name: value for _, name, value in row}
            loss = sum(parts.values())
            if not math.isfinite(loss):
                raise DivergenceError(self._explain_divergence(step, loss, parts))
            self._finite = [*self._finite[:1], (step, loss)]

    def _explain_divergence(self, step: int, loss: float, parts: Mapping[str, float]) -> str:
        """Say which part of the loss is not finite, and what can help.

        The learning rate is blamed only if the loss rose, or if there was no time to see it.
        """
        part = next((name for name, value in parts.items() if not math.isfinite(value)), None)
        whose = "the sum of its parts" if part is None else f"first in its part {part!r}"
        text = f"the loss is {loss} at step {step}, {whose}"
        config, factor = self._config, self._schedule.learning_rate_factor(step - 1)
        # The largest float16 is 65,504; bfloat16 and float32 reach 3e38.
        wider = {"fp16": "bf16", "bf16": "fp32"}.get(config.precision)
        ways = [] if wider is None else [f"precision: {wider}"]
        slower = ["a lower learning_rate", f"a warmup_ratio above {config.warmup_ratio:g}"]
        rates = (
            f"learning_rate {config.learning_rate:g} ({config.learning_rate * factor:.3g} at that "
            f"step), warmup_ratio {config.warmup_ratio:g}"
        )
        if len(self._finite) == 2 and self._finite[1][1] > self._finite[0][1]:
            (first, low), (last, high) = self._finite
            rise = f"it rose from {low:.3g} at step {first} to {high:.3g} at step {last}"
            return (
                f"diverged: {text}, after {rise}, with {rates} and precision {config.precision}; "
                f"try {_join_ways([*slower, *ways])}"
            )
        look = "look for a division by 0, log(0) or sqrt(0) there"
        if len(self._finite) == 2 or step == 1:
            ways = [f"; it did not rise before, so {look}", *(f", or try {way}" for way in ways)]
            return f"{text}, with precision {config.precision}{''.join(ways)}"
        return (
            f"{text}, too soon to see it rise, with {rates} and precision {config.precision}; try "
            f"{_join_ways([*slower, *ways])}, and {look}"
        )


def _join_ways(ways: Sequence[str]) -> str:
    return f"{', '.join(ways[:-1])} or {ways[-1]}"
