"""The schedule of a trial: warm-up, learning rate and end."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from cse_methods.config import LearningRateSchedule, TrainingConfig
from cse_methods.errors import TrainingError


@dataclass(frozen=True)
class Schedule:
    """When a trial warms up and ends, in optimiser steps."""

    total: int
    warmup: int
    per_epoch: int
    learning_rate: LearningRateSchedule = "linear"

    @classmethod
    def of(cls, config: TrainingConfig, *, sentences: int) -> "Schedule":
        """Plan a trial's steps: `max_steps`, or `epochs` passes of whole batches, rounded up.

        TrainingError if there are fewer sentences than one batch holds.
        """
        per_epoch = sentences // config.batch_size
        if per_epoch == 0:
            raise TrainingError(
                f"batch_size {config.batch_size} is more than the corpus's {sentences} sentences; "
                "take a smaller batch or a larger corpus"
            )
        total = config.max_steps or math.ceil(config.epochs * per_epoch)
        warmup = math.ceil(config.warmup_ratio * total)
        return cls(total, warmup, per_epoch, config.learning_rate_schedule)

    def learning_rate_factor(self, step: int) -> float:
        """Compute the factor for the step after `step` others: linear warm-up, then the schedule.

        With a warm-up, it is 0 at step 0 and 1 at the end of the warm-up. The linear schedule
        reaches 0 after `total` steps.
        """
        if step < self.warmup:
            return step / self.warmup
        if self.learning_rate == "constant":
            return 1
        if self.learning_rate == "linear":
            return max(0, self.total - step) / max(1, self.total - self.warmup)
        boundaries = sorted(self.learning_rate)
        factors = [self.learning_rate[boundary] for boundary in boundaries]
        return piecewise_constant(step, boundaries, [1, *factors])


def piecewise_constant(step: int, boundaries: Sequence[int], values: Sequence[float]) -> float:
    """Return the value for the first boundary that is not below `step`, else the last value.

    Args:
        step: number of steps done, >= 0.
        boundaries: ascending.
        values: one more than boundaries.

    Source:
        `PiecewiseConstantDecay` of Keras, as Carlsson et al. 2021 (CT) use it.
    """
    return values[bisect_left(boundaries, step)]
