"""MixCSE's loss: InfoNCE with further negatives that are mixed from the batch."""

from typing import Literal

import torch
from torch import Tensor

from cse_methods.losses.similarity import check_views, cosine_matrix, find_positive

MixedSides = Literal["both", "positive"]
"""Which views are mixed: only the positives, or also the anchors."""
Suppressed = Literal["zero", "remove"]
"""What happens to a mixed negative in which the positive has the share 1 - `mix_weight`: its logit
becomes 0, as in the released code, or it is removed."""


def mixed_negatives_loss(
    anchors: Tensor,
    positives: Tensor,
    *,
    mix_weight: float,
    temperature: float,
    mixed_sides: MixedSides = "both",
    suppressed: Suppressed = "zero",
    hard_negative_weight: float = 0.0,
) -> Tensor:
    r"""Compute the cross-entropy of finding each positive in the batch and mixed negatives.

    With :math:`m_i = \lambda z^2_i + (1 - \lambda) z^2_{i+1}` and
    :math:`k_i = \lambda z^1_i + (1 - \lambda) z^1_{i+1}`, the last row followed by the first,
    row :math:`i` of the logits is

    .. math:: [\cos(z^1_i, z^2_j) \mid \cos(z^1_i, m_j) \mid \cos(k_i, z^2_j)] / \tau

    and its target is :math:`j = i` of the first block. Mixtures are constant. The entries
    :math:`(i, i - 1)` of the second block and :math:`(i, i + 1)` of the third are suppressed: their
    mixtures contain the other view of the same sentence with the share :math:`1 - \lambda`.

    Args:
        anchors: embeddings :math:`z^1` of the first view, shape (B, D).
        positives: embeddings :math:`z^2` of the second view, shape (B, D).
        mix_weight: :math:`\lambda` in [0, 1], the share of row i in mixture i.
        temperature: :math:`\tau` > 0; divides the cosines.
        mixed_sides: "positive" omits the third block.
        suppressed: "zero" sets those logits to 0, "remove" removes them.
        hard_negative_weight: added to the logits on the diagonals of the mixed blocks.

    Returns:
        Scalar, in nats, >= 0, averaged over anchors.

    Source:
        Zhang et al. 2022 (MixCSE), as in its released code with default settings.
    """
    check_views(anchors, positives)
    blocks = [cosine_matrix(anchors, positives) / temperature]
    mixed = cosine_matrix(anchors, _mix_rows(positives, mix_weight)) / temperature
    blocks.append(_suppress_entries(mixed, -1, how=suppressed, own=hard_negative_weight))
    if mixed_sides == "both":
        mixed = cosine_matrix(_mix_rows(anchors, mix_weight), positives) / temperature
        blocks.append(_suppress_entries(mixed, 1, how=suppressed, own=hard_negative_weight))
    return find_positive(torch.cat(blocks, dim=1))


def _mix_rows(rows: Tensor, weight: float) -> Tensor:
    """Mix each row with the next one, without gradients."""
    constant = rows.detach()
    return weight * constant + (1 - weight) * constant.roll(-1, dims=0)


def _suppress_entries(logits: Tensor, shift: int, *, how: Suppressed, own: float) -> Tensor:
    """Add `own` to the diagonal, then suppress the entries (i, i + shift), cyclically."""
    diagonal = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    raised = torch.where(diagonal, logits + own, logits)
    gone = diagonal.roll(shift, dims=1)
    return raised.masked_fill(gone, 0.0 if how == "zero" else -torch.inf)
