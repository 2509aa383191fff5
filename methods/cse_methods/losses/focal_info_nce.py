"""Focal-InfoNCE: negatives count by their cosine, and so do positives."""

import torch
from torch import Tensor

from cse_methods.losses.similarity import (
    check_temperature,
    check_views,
    cosine_matrix,
    find_positive,
)


def focal_info_nce(
    anchors: Tensor, positives: Tensor, *, temperature: float, hardness: float
) -> Tensor:
    r"""Compute InfoNCE with cosines that are weighted by themselves.

    With :math:`s_{ij}` the cosine of anchor :math:`i` and positive :math:`j`,

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{s_{ii}^2 / \tau}}
              {e^{s_{ii}^2 / \tau} + \sum_{j \ne i} e^{s_{ij} (s_{ij} + m) / \tau}}

    Negatives with a cosine above :math:`1 - m` get a larger logit than in InfoNCE. Nothing is
    clamped: a positive below 0 is pushed away, and a negative below :math:`-m / 2` is drawn nearer.

    Args:
        anchors: embeddings of the first view, shape (B, D).
        positives: embeddings of the second view, shape (B, D); row i belongs to anchor i.
        temperature: :math:`\tau` > 0; divides the weighted cosines, once.
        hardness: :math:`m`; added to the cosine by which a negative is weighted.

    Returns:
        Scalar, in nats, >= 0.

    Raises:
        ValueError: if shapes differ, the batch is empty, or the temperature is not above 0.

    Source:
        Hou and Li 2023 (Focal-InfoNCE).
    """
    check_temperature("temperature", temperature)
    check_views(anchors, positives)
    cosines = cosine_matrix(anchors, positives)
    own = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    weights = torch.where(own, cosines, cosines + hardness)
    return find_positive(weights * cosines / temperature)
