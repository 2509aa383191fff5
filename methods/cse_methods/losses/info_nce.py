"""InfoNCE with in-batch negatives, the contrastive loss of SimCSE."""

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.lists import Reduction, check_temperature
from cse_methods.losses.similarity import cosine_matrix


def info_nce(
    anchors: Tensor,
    positives: Tensor,
    *,
    temperature: float,
    negatives: Tensor | None = None,
    hard_negative_weight: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Cross-entropy of finding each anchor's positive among the batch.

    With :math:`s_{ij}` the cosine of anchor :math:`i` and positive :math:`j`,

    .. math:: L = -\frac{1}{B} \sum_i \log
              \frac{e^{s_{ii} / \tau}}{\sum_j e^{s_{ij} / \tau} + \sum_j e^{n_{ij} / \tau + w_{ij}}}

    where :math:`n_{ij}` is the cosine of anchor :math:`i` and hard negative :math:`j`, and
    :math:`w_{ij}` is `hard_negative_weight` for :math:`i = j`, else 0. Not symmetrised: only
    anchors look for positives.

    Args:
        anchors: embeddings of the first view, shape (B, D).
        positives: embeddings of the second view, shape (B, D); row i belongs to anchor i.
        temperature: :math:`\tau` > 0; divides cosines.
        negatives: embeddings of hard negatives, shape (B, D); row i belongs to anchor i.
        hard_negative_weight: added to the logit of an anchor's own hard negative.
        reduction: over anchors.

    Returns:
        Scalar, in nats, >= 0.

    Raises:
        ValueError: if shapes differ, or the temperature is not above 0.

    Source:
        Gao et al. 2021 (SimCSE), eq. 1 and, with hard negatives, eq. 5.
    """
    check_temperature("temperature", temperature)
    _check_views(anchors, positives, negatives)
    logits = cosine_matrix(anchors, positives) / temperature  # (B, B)
    if negatives is not None:
        own = torch.eye(len(anchors), dtype=logits.dtype, device=logits.device)
        hard = cosine_matrix(anchors, negatives) / temperature + hard_negative_weight * own
        logits = torch.cat([logits, hard], dim=1)  # (B, 2 B)
    target = torch.arange(len(anchors), device=logits.device)
    return F.cross_entropy(logits, target, reduction=reduction)


def _check_views(anchors: Tensor, positives: Tensor, negatives: Tensor | None) -> None:
    shapes = [tuple(view.shape) for view in (anchors, positives, negatives) if view is not None]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2:
        given = ", ".join(map(str, shapes))
        raise ValueError(f"expected views of one shape (B, D), got {given}")
