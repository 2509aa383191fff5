"""InfoNCE in which positives are compared with hard negatives too: PNA's and CoT-BERT's loss."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.similarity import (
    check_temperature,
    check_views,
    cosine_matrix,
    find_positive,
)

Smoothing = Literal["positive", "all"]
"""What a score below 1 does: it lowers the positive's target, or it also raises the others'."""


def augmented_contrast(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor,
    *,
    temperature: float,
    hard_negative_weight: float = 0.0,
    augmented_weight: float = 0.0,
    scores: Tensor | None = None,
    smoothing: Smoothing = "all",
) -> Tensor:
    r"""Compute the cross-entropy of finding each positive among all pairs with a hard negative.

    With :math:`s_{ij}` the cosine of anchor :math:`i` and positive :math:`j`, :math:`n_{ij}` that
    of anchor :math:`i` and hard negative :math:`j`, and :math:`m_{ij}` that of positive :math:`i`
    and hard negative :math:`j`,

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{s_{ii} / \tau}}{\sum_j \left(
              e^{s_{ij} / \tau} + e^{n_{ij} / \tau + v_{ij}} + e^{m_{ij} / \tau + w_{ij}} \right)}

    where :math:`v_{ij}` and :math:`w_{ij}` are the two weights for :math:`i = j`, else 0. With
    scores :math:`y_i` the target of the positive is :math:`y_i` instead of 1, and that of each of
    the other :math:`3 B - 1` pairs 0, or :math:`(1 - y_i) / (3 B - 1)` if all are smoothed.

    Args:
        anchors: embeddings of the anchors, shape (B, D).
        positives: embeddings of the positives, shape (B, D); row i belongs to anchor i.
        negatives: embeddings of the hard negatives, shape (B, D); row i belongs to anchor i.
        temperature: :math:`\tau` > 0; divides the cosines.
        hard_negative_weight: added to the logit of an anchor and its own hard negative.
        augmented_weight: added to the logit of a positive and its own hard negative.
        scores: how alike anchor and positive are, in [0, 1], shape (B,); None is 1 for all.
        smoothing: the targets of the other pairs, where there are scores.

    Returns:
        Scalar, in nats, >= 0.

    Raises:
        ValueError: if shapes differ, the batch is empty, the temperature is not above 0, or a
            weight is no finite number.

    Source:
        An et al. 2024 (PNA) and Zhang et al. 2023 (CoT-BERT), eq. 3; weights and scores as in PNA's
        released code, except that a score of 0 leaves the positive the target 0.
    """
    check_temperature("temperature", temperature)
    check_views(anchors, positives, negatives)
    for name, weight in (
        ("hard_negative_weight", hard_negative_weight),
        ("augmented_weight", augmented_weight),
    ):
        if not math.isfinite(weight):
            raise ValueError(f"{name} must be a finite number, got {weight}")
    size = len(anchors)
    own = torch.eye(size, dtype=anchors.dtype, device=anchors.device)
    logits = torch.cat(
        [
            cosine_matrix(anchors, positives) / temperature,
            cosine_matrix(anchors, negatives) / temperature + hard_negative_weight * own,
            cosine_matrix(positives, negatives) / temperature + augmented_weight * own,
        ],
        dim=1,
    )  # (B, 3 B)
    if scores is None:
        return find_positive(logits)
    scores = scores.to(logits).unsqueeze(1)
    rest = (1 - scores) / (3 * size - 1) if smoothing == "all" else torch.zeros_like(scores)
    positive = torch.eye(size, 3 * size, dtype=torch.bool, device=logits.device)
    return F.cross_entropy(logits, torch.where(positive, scores, rest))
