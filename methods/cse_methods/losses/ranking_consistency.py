"""Ranking consistency: both views of a batch are to rank it alike."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.similarity import Reduction, check_lists, check_temperature, reduce


def ranking_consistency(
    similarities: Tensor,
    other: Tensor | None = None,
    *,
    temperature: float,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Compute the Jensen-Shannon divergence between the two views' top-one distributions.

    With :math:`p_i, q_i` the softmax of row :math:`i` of :math:`S / \tau` and of
    :math:`S' / \tau`, and :math:`m_i` their mean,

    .. math:: L = \frac{1}{2 B} \sum_i \mathrm{KL}(p_i \| m_i) + \mathrm{KL}(q_i \| m_i)

    Args:
        similarities: :math:`S`, first view against second, shape (B, B); receives gradients.
        other: :math:`S'`, second view against first, shape (B, B); receives gradients. None is
            the transpose of `similarities`, as it always is for a symmetric similarity.
        temperature: :math:`\tau` > 0.
        reduction: over anchors.

    Returns:
        Scalar, in nats; with "mean" in [0, ln 2], 0 if both distributions agree.

    Raises:
        ValueError: if the matrices are not both (B, B), or the temperature is not above 0.

    Source:
        Liu et al. 2023 (RankCSE), eq. 2.
    """
    other = similarities.T if other is None else other
    check_lists(similarities=similarities, other=other)
    check_temperature("temperature", temperature)
    first = F.log_softmax(similarities / temperature, dim=1)
    second = F.log_softmax(other / temperature, dim=1)
    mixture = torch.logaddexp(first, second) - math.log(2)
    divergence = first.exp() * (first - mixture) + second.exp() * (second - mixture)
    return reduce(divergence.sum(dim=1) / 2, reduction)
