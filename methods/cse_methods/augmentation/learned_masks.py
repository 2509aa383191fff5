"""L2P-CSR's masks: drawn, moved to where they make a pair harder, and multiplied in."""

from collections.abc import Callable

import torch
from torch import Tensor

LossOfMasks = Callable[[Tensor], Tensor]
"""From masks, as `fuse_masks` gives them, to the scalar that they make larger."""


def move_scores(scores: Tensor, gradient: Tensor, *, step_size: float) -> Tensor:
    r"""Move scores one step up a gradient, which is normalised over the last axis.

    .. math:: x \leftarrow \min(\max(x + \eta \, g / |g|, 0), 1)

    Where the last axis has one entry, that is a step of the sign. Scores whose gradient is 0
    become 1: nothing hangs on what they mask, and it is kept.

    Args:
        scores: in [0, 1], any shape.
        gradient: of the same shape.
        step_size: :math:`\eta`, the length of a step.

    Source:
        Zhou et al. 2023 (L2P-CSR), as its released code computes it.
    """
    moved = scores + step_size * (gradient / gradient.norm(dim=-1, keepdim=True))
    return torch.where(moved.isnan(), torch.ones_like(moved), moved.clamp(0, 1))


def make_masks(scores: Tensor, *, threshold: float) -> Tensor:
    """Make masks of the scores' shape and type: 1 where a score is above the threshold, else 0."""
    return (scores > threshold).to(scores.dtype)


def fuse_masks(masks: tuple[Tensor, ...]) -> Tensor:
    """Compute the mean of masks; of two, it is a half where one of them is 0.

    Args:
        masks: shapes that fit one another, such as (P, B, L, 1) and (P, 1, 1, D).

    Source:
        Zhou et al. 2023 (L2P-CSR), as its released code computes it.
    """
    return sum(masks[1:], masks[0]) / len(masks)


def learn_masks(
    loss_of: LossOfMasks, *scores: Tensor, steps: int, step_size: float, threshold: float
) -> tuple[Tensor, ...]:
    """Move scores to where their masks make a loss larger.

    Each step computes the loss with the masks of the scores, and moves the scores along its
    gradient at the masks. Nothing else gathers gradients.

    Args:
        loss_of: the loss of masks.
        scores: in [0, 1], at least one tensor; their shapes fit one another. Constant.
        steps: >= 0.
        step_size: length of a step.
        threshold: scores above it keep what they mask.

    Returns:
        The scores, constant, of the same shapes.
    """
    learned = tuple(score.detach() for score in scores)
    for _ in range(steps):
        with torch.enable_grad():
            masks = tuple(make_masks(x, threshold=threshold).requires_grad_() for x in learned)
            gradients = torch.autograd.grad(loss_of(fuse_masks(masks)), masks)
        learned = tuple(
            move_scores(x, gradient, step_size=step_size)
            for x, gradient in zip(learned, gradients, strict=True)
        )
    return learned
