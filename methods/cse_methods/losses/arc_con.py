"""ArcCSE's losses: contrast with an angular margin, and triplets ordered by how much is masked."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.similarity import check_views, cosine_matrix, find_positive

_LARGEST_COSINE = 1 - 1e-7
"""The slope of arccos is infinite at 1, the cosine of equal views."""


def arc_con(
    anchors: Tensor, positives: Tensor, *, margin_degrees: float, temperature: float
) -> Tensor:
    r"""Compute the contrastive cross-entropy with a margin added to the angle of the positives.

    With :math:`\theta_{ij}` the angle between anchor :math:`i` and positive :math:`j`,

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{\cos(\theta_{ii} + m) / \tau}}
              {e^{\cos(\theta_{ii} + m) / \tau} + \sum_{j \ne i} e^{\cos \theta_{ij} / \tau}}

    The cosine of the positive is clamped to :math:`\pm(1 - 10^{-7})`.

    Args:
        anchors: embeddings of the first view, shape (B, D).
        positives: embeddings of the second view, shape (B, D); row i belongs to anchor i.
        margin_degrees: m in degrees, in [0, 180].
        temperature: :math:`\tau` > 0; divides the cosines.

    Returns:
        Scalar, in nats, >= 0, averaged over anchors.

    Source:
        Zhang et al. 2022 (ArcCSE), as two public re-implementations agree.
    """
    check_views(anchors, positives)
    cosines = cosine_matrix(anchors, positives)
    angles = cosines.diagonal().clamp(-_LARGEST_COSINE, _LARGEST_COSINE).arccos()
    widened = (angles + math.radians(margin_degrees)).cos()
    own = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    logits = torch.where(own, widened.unsqueeze(1), cosines) / temperature
    return find_positive(logits)


def masking_triplet(
    sentences: Tensor, light: Tensor, heavy: Tensor, *, margin: float = 0.0
) -> Tensor:
    r"""Compute by how much a heavily masked sentence is nearer than a lightly masked one.

    .. math:: L = \frac{1}{T} \sum_i \max(\cos(h_i, h''_i) - \cos(h_i, h'_i) + m, 0)

    Args:
        sentences: embeddings :math:`h`, shape (T, D).
        light: embeddings :math:`h'` of the same sentences, lightly masked, shape (T, D).
        heavy: embeddings :math:`h''` of the same sentences, more heavily masked, shape (T, D).
        margin: m, in cosine.

    Returns:
        Scalar, in cosine, averaged over triplets, in [0, 2 + m].

    Source:
        Zhang et al. 2022 (ArcCSE), the triplet term, as in a public re-implementation for m = 0.
    """
    check_views(sentences, light, heavy)
    near = F.cosine_similarity(sentences, light)
    far = F.cosine_similarity(sentences, heavy)
    return (far - near + margin).relu().mean()
