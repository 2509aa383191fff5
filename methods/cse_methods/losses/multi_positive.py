"""WhitenedCSE's losses for several positives per anchor."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from cse_methods.losses.similarity import check_temperature, check_views, cosine_matrix

MultiPositive = Literal["l1", "l2-hard-positive", "l2-soft", "l2-literal"]


def multi_positive(
    anchors: Tensor,
    positives: Sequence[Tensor],
    *,
    temperature: float,
    form: MultiPositive = "l1",
    weight: float = 1.0,
) -> Tensor:
    r"""Compute InfoNCE with several positives, each contrasted with the batch of its own view.

    With :math:`s_p` the cosine of an anchor and its positive in view :math:`p`, divided by
    :math:`\tau`, and :math:`Z_p` the sum of :math:`e^{s}` over all of that view, per anchor

    ==================  =============================================  ===========================
    "l1"                :math:`-\lambda \sum_p \log (e^{s_p} / Z_p)`   all positives alike
    "l2-hard-positive"  :math:`\log \sum_p \lambda Z_p / e^{s_p}`      the farthest counts most
    "l2-soft"           :math:`-\log \sum_p \lambda e^{s_p} / Z_p`     the nearest counts most
    "l2-literal"        :math:`-\log \sum_p \lambda e^{-s_p} / Z_p`    as printed; pushes positives
                                                                       away, only for comparison
    ==================  =============================================  ===========================

    Args:
        anchors: embeddings of the first view, shape (B, D).
        positives: one or more further views, shape (B, D) each; row i belongs to anchor i.
        temperature: :math:`\tau` > 0; divides the cosines.
        form: how the positives of an anchor are combined.
        weight: :math:`\lambda` > 0. In the l2 forms it only adds a constant, without a gradient.

    Returns:
        Scalar, in nats, averaged over anchors; the l1 form is >= 0. With one positive and weight
        1, all forms but the literal one equal `info_nce`.

    Raises:
        ValueError: if there is no positive, shapes differ, or the temperature or the weight is
            not above 0.

    Source:
        Zhuo et al. 2023 (WhitenedCSE), eq. 7 (l1) and 8 (l2). The printed sign of eq. 8 contradicts
        the text around it: "l2-hard-positive" does what the text says.
    """
    check_temperature("temperature", temperature)
    if not weight > 0:
        raise ValueError(f"weight must be above 0, got {weight}")
    if not positives:
        raise ValueError("expected one or more views of positives, got 0")
    check_views(anchors, *positives)
    logits = torch.stack([cosine_matrix(anchors, view) for view in positives]) / temperature
    own = logits.diagonal(dim1=1, dim2=2)  # (m, B)
    total = logits.logsumexp(dim=2)  # (m, B), log Z
    if form == "l1":
        per_anchor = weight * (total - own).sum(dim=0)
    elif form == "l2-hard-positive":
        per_anchor = (total - own).logsumexp(dim=0) + math.log(weight)
    elif form == "l2-soft":
        per_anchor = -(own - total).logsumexp(dim=0) - math.log(weight)
    else:
        per_anchor = -(-own - total).logsumexp(dim=0) - math.log(weight)
    return per_anchor.mean()
