"""ConSERT's contrastive loss: both views look for each other, among both views of the others."""

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.lists import check_temperature, without_positive
from cse_methods.losses.similarity import check_views, cosine_matrix


def nt_xent(first: Tensor, second: Tensor, *, temperature: float) -> tuple[Tensor, Tensor]:
    r"""Cross-entropy of finding a sentence's other view, from either view.

    With :math:`s` the cosines of the two views, and :math:`o` those of the first with itself,

    .. math:: L_1 = -\frac{1}{B} \sum_i \log \frac{e^{s_{ii} / \tau}}
              {\sum_j e^{s_{ij} / \tau} + \sum_{j \ne i} e^{o_{ij} / \tau}}

    :math:`L_2` is the same with the views exchanged. The loss is their sum.

    Args:
        first: embeddings of the first view, shape (B, D).
        second: embeddings of the second view, shape (B, D); row i is of the same sentence.
        temperature: :math:`\tau` > 0; divides cosines.

    Returns:
        :math:`L_1` and :math:`L_2`, scalars, in nats, >= 0.

    Raises:
        ValueError: if shapes differ, the batch is empty or the temperature is not above 0.

    Source:
        Chen et al. 2020 (SimCLR), as the released code of Yan et al. 2021 (ConSERT) has it: the two
        directions are added, not averaged.
    """
    check_temperature("temperature", temperature)
    check_views(first, second)
    across = cosine_matrix(first, second)
    return _find(across, first, temperature), _find(across.T, second, temperature)


def _find(across: Tensor, own: Tensor, temperature: float) -> Tensor:
    """The cross-entropy of one direction, whose own view gives further candidates."""
    within = without_positive(cosine_matrix(own, own))  # (B, B - 1)
    target = torch.arange(len(own), device=own.device)
    return F.cross_entropy(torch.cat([across, within], dim=1) / temperature, target)
