"""InfoNCE with in-batch negatives: SimCSE's loss, ESimCSE's queue, HiCL's same-view negatives."""

import math
from typing import Literal

import torch
from torch import Tensor

from cse_methods.losses.similarity import (
    Reduction,
    check_temperature,
    check_views,
    cosine_matrix,
    find_positive,
)

NegativesFrom = Literal["other_view", "same_view"]
"""The view of in-batch negatives: that of the positives, as in SimCSE's code, or the anchors'."""


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor,
    negatives: Tensor | None = None,
    hard_negative_weight: float = 0.0,
    queue: Tensor | None = None,
    negatives_from: NegativesFrom = "other_view",
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Compute the cross-entropy of finding each anchor's positive in the batch.

    With :math:`s_{ij}` the cosine of anchor :math:`i` and positive :math:`j`,

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{s_{ii} / \tau}}
              {\sum_j e^{s_{ij} / \tau} + \sum_j e^{n_{ij} / \tau + w_{ij}}
              + \sum_m e^{q_{im} / \tau}}

    where :math:`n_{ij}` is the cosine of anchor :math:`i` and hard negative :math:`j`,
    :math:`w_{ij}` is `hard_negative_weight` for :math:`i = j`, else 0, and :math:`q_{im}` is the
    cosine of anchor :math:`i` and row :math:`m` of the queue. With negatives from the same view,
    :math:`s_{ij}` for :math:`j \ne i` is the cosine of anchors :math:`i` and :math:`j`. The loss
    is not symmetrised: only anchors look for positives.

    Args:
        anchors: embeddings of the first view, shape (B, D).
        positives: embeddings of the second view, shape (B, D); row i belongs to anchor i.
        temperature: :math:`\tau` > 0, which can be learned; divides the cosines.
        negatives: embeddings of hard negatives, shape (B, D); row i belongs to anchor i.
        hard_negative_weight: added to the logit of an anchor's own hard negative; minus infinity
            excludes it.
        queue: further negatives of every anchor, shape (Q, D), Q >= 0; treated as constant.
        negatives_from: the view of the in-batch negatives.
        reduction: over anchors.

    Returns:
        Scalar, in nats, >= 0.

    Raises:
        ValueError: if shapes differ, the batch is empty, the temperature is not above 0, or the
            hard negatives' weight is NaN or plus infinity.

    Source:
        Gao et al. 2021 (SimCSE), eq. 1 and, with hard negatives, eq. 5; the queue is that of Wu
        et al. 2022 (ESimCSE); same-view negatives are Wu et al. 2023 (HiCL), eq. 1 as printed.
    """
    check_temperature("temperature", temperature)
    if not hard_negative_weight < math.inf:
        raise ValueError(
            f"hard_negative_weight must be a number below infinity, got {hard_negative_weight}"
        )
    check_views(anchors, positives, *([] if negatives is None else [negatives]))
    own = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    logits = cosine_matrix(anchors, positives) / temperature  # (B, B)
    if negatives_from == "same_view":
        logits = torch.where(own, logits, cosine_matrix(anchors, anchors) / temperature)
    candidates = [logits]
    if negatives is not None:
        hard = cosine_matrix(anchors, negatives) / temperature
        # A product with `own` would be float32, and NaN for 0 times infinity.
        candidates.append(torch.where(own, hard + hard_negative_weight, hard))
    if queue is not None:
        candidates.append(cosine_matrix(anchors, queue.detach()) / temperature)  # (B, Q)
    return find_positive(torch.cat(candidates, dim=1), reduction=reduction)
