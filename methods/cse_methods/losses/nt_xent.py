"""ConSERT's contrastive loss: each view is to find the other, among both views of the batch."""

import torch
from torch import Tensor

from cse_methods.losses.similarity import (
    check_views,
    cosine_matrix,
    find_positive,
    without_positive,
)


def nt_xent(first: Tensor, second: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    r"""Compute the cross-entropy of finding a sentence's other view, in both directions.

    With :math:`s` the cosines between the two views, and :math:`o` those within the first,

    .. math:: L_1 = -\frac{1}{B} \sum_i \log \frac{e^{s_{ii} / \tau}}
              {\sum_j e^{s_{ij} / \tau} + \sum_{j \ne i} e^{o_{ij} / \tau}}

    :math:`L_2` is the same with the views exchanged. The loss is their sum.

    Args:
        first: embeddings of the first view, shape (B, D).
        second: embeddings of the second view, shape (B, D); row i is of the same sentence.
        temperature: :math:`\tau` > 0; divides the cosines.

    Returns:
        :math:`L_1` and :math:`L_2`, scalars, in nats, >= 0.

    Source:
        Chen et al. 2020 (SimCLR), as in the released code of Yan et al. 2021 (ConSERT): the two
        directions are added, not averaged.
    """
    check_views(first, second)
    across = cosine_matrix(first, second)
    return _compute_loss(across, first, temperature), _compute_loss(across.T, second, temperature)


def _compute_loss(across: Tensor, own: Tensor, temperature: float) -> Tensor:
    """Compute the cross-entropy of one direction, with further candidates from its own view."""
    within = without_positive(cosine_matrix(own, own))  # (B, B - 1)
    return find_positive(torch.cat([across, within], dim=1) / temperature)
