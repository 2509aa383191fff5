"""When a trial warms up, reports and ends."""

import math
from dataclasses import dataclass

from cse_methods.contract import TrainingConfig
from cse_methods.errors import TrainingError


@dataclass(frozen=True)
class Schedule:
    """When a trial ends, warms up, and reports; all in optimiser steps."""

    total: int
    warmup: int
    eval_steps: int
    per_epoch: int

    @classmethod
    def of(cls, config: TrainingConfig, *, sentences: int) -> "Schedule":
        """Whole batches only; `max_steps`, or `epochs` passes, rounded up.

        Raises:
            TrainingError: if there are fewer sentences than one batch holds.
        """
        per_epoch = sentences // config.batch_size
        if per_epoch == 0:
            raise TrainingError(
                f"batch_size {config.batch_size} is more than the corpus's {sentences} sentences; "
                "take a smaller batch or a larger corpus"
            )
        total = config.max_steps or math.ceil(config.epochs * per_epoch)
        return cls(total, math.ceil(config.warmup_ratio * total), config.eval_steps, per_epoch)

    def next_report(self, step: int) -> int:
        return min(self.total, (step // self.eval_steps + 1) * self.eval_steps)

    def learning_rate_factor(self, step: int) -> float:
        """The factor for the step that follows `step` others: linear warm-up, then linear decay.

        It is 0 at step 0 if there is a warm-up, 1 at its end, 0 after `total` steps.
        """
        if step < self.warmup:
            return step / self.warmup
        return max(0, self.total - step) / max(1, self.total - self.warmup)
