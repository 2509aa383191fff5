"""SimCSE++'s contrast: negatives are compared as they are without dropout."""

import torch
from torch import Tensor

from cse_methods.losses.similarity import (
    check_temperature,
    check_views,
    cosine_matrix,
    find_positive,
)


def off_dropout_contrast(
    first: Tensor,
    second: Tensor,
    without_dropout: Tensor,
    *,
    temperature: float,
    positive_factor: float,
) -> Tensor:
    r"""Compute the cross-entropy of finding each sentence's positive among negatives free of noise.

    With :math:`z^1, z^2` two passes with dropout and :math:`z^0` one without it,
    :math:`p_i = m \cos(z^1_i, z^2_i) / \tau`,

    .. math:: L = \frac{1}{B} \sum_i \left[ -p_i + \log \left( e^{p_i}
              + \sum_{j \ne i} e^{\cos(z^0_i, z^0_j) / \tau} \right) \right]

    Args:
        first: embeddings of the first pass, shape (B, D).
        second: embeddings of the second pass, shape (B, D).
        without_dropout: embeddings of the third pass, shape (B, D); they receive gradients too.
        temperature: :math:`\tau` > 0; divides cosines.
        positive_factor: :math:`m`; multiplies the logit of the positive.

    Returns:
        Scalar, in nats, >= 0; 0 for B = 1, where there is no negative.

    Raises:
        ValueError: if shapes differ, the batch is empty, or the temperature is not above 0.

    Source:
        Xu et al. 2023 (SimCSE++). Its released code masks the own pair of the third pass by
        adding log 1e-45, which lets it through at low temperatures; here it is left out.
    """
    check_temperature("temperature", temperature)
    check_views(first, second, without_dropout)
    own = torch.eye(len(first), dtype=torch.bool, device=first.device)
    positives = positive_factor * cosine_matrix(first, second)
    cosines = torch.where(own, positives, cosine_matrix(without_dropout, without_dropout))
    return find_positive(cosines / temperature)
