"""Momentum contrast: a slowly moving copy of the encoder, and queues of embeddings."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cse_methods.encoders.devices import send_tensor


def enqueue(queue: Tensor, rows: Tensor, *, size: int) -> Tensor:
    """Append a batch (B, D) to a queue (Q, D), newest last, and drop old rows beyond `size`.

    A first batch is kept whole even if it is larger, as in the released code. Returns a new tensor
    without gradients.

    Source:
        Wu et al. 2022 (ESimCSE), and its released code.
    """
    joined = torch.cat([queue, rows]).detach()
    return joined[-size:] if len(queue) else joined


@torch.no_grad()
def moving_average_(target: nn.Module, source: nn.Module, *, momentum: float) -> None:
    r"""Move every parameter of `target`, in place, towards that of `source`.

    .. math:: p_m \leftarrow m p_m + (1 - m) p

    Args:
        target: the module that follows.
        source: the module being trained, of the same architecture.
        momentum: m in [0, 1]; 1 leaves the target unchanged.

    ValueError if the modules differ in their parameters.
    Source:
        He et al. 2020 (MoCo), eq. 2; for sentences Wu et al. 2022 (ESimCSE).
    """
    follows: list[Tensor] = list(target.parameters())
    leads: list[Tensor] = list(source.parameters())
    sizes = [sum(p.numel() for p in parameters) for parameters in (follows, leads)]
    if sizes[0] != sizes[1] or len(follows) != len(leads):
        raise ValueError(f"expected modules of as many parameters, got {sizes[0]} and {sizes[1]}")
    # All at once: on a GPU this takes a few kernel launches instead of one per parameter.
    torch._foreach_lerp_(follows, leads, 1 - momentum)


def ema_momentum(step: int, *, decay: float, total_steps: int) -> float:
    r"""Compute the momentum of a moving average at a step: from `decay` up to 1 along a cosine.

    .. math:: m_s = 1 - (1 - d) \frac{\cos(\pi s / S) + 1}{2}

    Args:
        step: s >= 1, the number of the training step.
        decay: d in [0, 1], the momentum at the start.
        total_steps: S >= 1, the step at which the momentum reaches 1, where it then stays.

    Source:
        Cao et al. 2022 (MoCoSE), and its released code, where the momentum falls again beyond S.
    """
    share = min(step / total_steps, 1)
    return 1 - (1 - decay) * (math.cos(math.pi * share) + 1) / 2


@dataclass
class KeyQueue:
    """Keys of earlier batches, newest first; at the start, random rows fill the queue behind them.

    Source:
        Cao et al. 2022 (MoCoSE), as its released code fills it.
    """

    rows: Tensor
    """Shape (Q, D), constant."""
    size: int
    """K >= 1, the number of rows to keep once more than K have been added."""
    start: int
    """Random rows that count as filled at the start, >= 0."""
    filled: int
    """`start` plus the number of keys added."""

    def negatives(self) -> Tensor:
        """Return the rows in use: the first `filled + start` if that is less than K, else all."""
        count = self.filled + self.start
        return self.rows[:count] if count < self.size else self.rows

    def add(self, keys: Tensor) -> None:
        """Add a batch of keys, shape (B, D), at the front; cut to K once more than K were added."""
        self.filled += len(keys)
        joined = torch.cat([keys.detach(), send_tensor(self.rows, keys.device)])
        self.rows = joined[: self.size] if self.filled > self.size else joined
