"""Momentum contrast: a slowly moving copy of the encoder, and a queue of its embeddings."""

import torch
from torch import Tensor, nn


def enqueue(queue: Tensor, rows: Tensor, *, size: int) -> Tensor:
    """Append a batch to the queue, newest last, and drop the oldest rows beyond `size`.

    Args:
        queue: shape (Q, D); (0, D) before the first batch.
        rows: the batch, shape (B, D).
        size: number of rows to keep, >= 1. A first batch is kept whole even if it is larger, as in
            the released code.

    Returns:
        A new tensor without gradients.

    Raises:
        ValueError: if the widths differ or the size is not 1 or more.

    Source:
        Wu et al. 2022 (ESimCSE), and its released code.
    """
    if size < 1:
        raise ValueError(f"the queue's size must be 1 or more, got {size}")
    if queue.dim() != 2 or rows.dim() != 2 or queue.shape[1] != rows.shape[1]:
        raise ValueError(
            "expected a queue (Q, D) and rows (B, D), "
            f"got {tuple(queue.shape)} and {tuple(rows.shape)}"
        )
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

    Raises:
        ValueError: if the momentum is outside [0, 1], or the modules differ in their parameters.

    Source:
        He et al. 2020 (MoCo), eq. 2; for sentences Wu et al. 2022 (ESimCSE).
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum must be in [0, 1], got {momentum}")
    follows: list[Tensor] = list(target.parameters())
    leads: list[Tensor] = list(source.parameters())
    sizes = [sum(p.numel() for p in parameters) for parameters in (follows, leads)]
    if sizes[0] != sizes[1] or len(follows) != len(leads):
        raise ValueError(f"expected modules of as many parameters, got {sizes[0]} and {sizes[1]}")
    # All at once: on a GPU this takes a few kernel launches instead of one per parameter.
    torch._foreach_lerp_(follows, leads, 1 - momentum)
