"""MoCoSE's schedule of the momentum, and its queue of keys, newest first."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.encoders.devices import send_tensor


def ema_momentum(step: int, *, decay: float, total_steps: int) -> float:
    r"""Compute the momentum of a moving average at a step: from `decay` up to 1 along a cosine.

    .. math:: m_s = 1 - (1 - d) \frac{\cos(\pi s / S) + 1}{2}

    Args:
        step: s >= 1, the number of the training step.
        decay: d in [0, 1], the momentum at the start.
        total_steps: S >= 1, the step at which the momentum reaches 1, where it then stays.

    Raises:
        ValueError: if an argument is outside its bounds.

    Source:
        Cao et al. 2022 (MoCoSE), and its released code, where the momentum falls again beyond S.
    """
    if step < 1 or total_steps < 1 or not 0 <= decay <= 1:
        raise ValueError(
            "step >= 1, total_steps >= 1 and decay in [0, 1] must hold, "
            f"got {step}, {total_steps} and {decay}"
        )
    share = min(step / total_steps, 1)
    return 1 - (1 - decay) * (math.cos(math.pi * share) + 1) / 2


@dataclass
class KeyQueue:
    """Keys of earlier batches, newest first; at the start, random rows fill the queue behind them.

    Args:
        rows: shape (Q, D), constant.
        size: K >= 1, the number of rows to keep once more than K have been added.
        start: number of random rows that count as filled at the start, >= 0.
        filled: `start` plus the number of keys added.

    Source:
        Cao et al. 2022 (MoCoSE), as its released code fills it.
    """

    rows: Tensor
    size: int
    start: int
    filled: int

    @classmethod
    def of_random_rows(cls, width: int, *, size: int, start: int) -> "KeyQueue":
        """Create a queue of `size` random directions, drawn with torch's global generator."""
        return cls(F.normalize(torch.randn(size, width), dim=1), size, start, start)

    def negatives(self) -> Tensor:
        """Return the rows in use: the first `filled + start` if that is less than K, else all."""
        count = self.filled + self.start
        return self.rows[:count] if count < self.size else self.rows

    def add(self, keys: Tensor) -> None:
        """Add a batch of keys, shape (B, D), at the front; cut to K once more than K were added."""
        self.filled += len(keys)
        joined = torch.cat([keys.detach(), send_tensor(self.rows, keys.device)])
        self.rows = joined[: self.size] if self.filled > self.size else joined
