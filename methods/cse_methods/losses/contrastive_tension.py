"""CT: two encoders whose dot products tell a sentence beside itself from two sentences."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.lists import Reduction
from cse_methods.losses.similarity import check_views, cosine_matrix


def contrastive_tension(
    first: Tensor, second: Tensor, labels: Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    r"""Binary cross-entropy of pairs, whose logit is their dot product.

    .. math:: L = -\frac{1}{B} \sum_i y_i \log \sigma(a_i \cdot b_i)
              + (1 - y_i) \log (1 - \sigma(a_i \cdot b_i))

    Args:
        first: embeddings of the pairs' first sentences, by the first encoder, shape (B, D).
        second: embeddings of their second sentences, by the second encoder, shape (B, D).
        labels: :math:`y`, 1 where both are the same sentence, else 0, shape (B,).
        reduction: over pairs; `sum` is that of sentence-transformers.

    Returns:
        Scalar, in nats, >= 0.

    Raises:
        ValueError: if the shapes differ or there is no pair.

    Source:
        Carlsson et al. 2021 (CT), as its released code computes it.
    """
    check_views(first, second)
    logits = (first * second).sum(dim=1)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction=reduction)


def in_batch_tension(first: Tensor, second: Tensor, log_scale: Tensor) -> Tensor:
    r"""The mean of two InfoNCE losses, by rows and by columns, with a trained scale of the cosines.

    Args:
        first: embeddings by the first encoder, shape (B, D).
        second: embeddings of the same sentences by the second encoder, shape (B, D).
        log_scale: the logarithm of what multiplies cosines, a scalar.

    Returns:
        Scalar, in nats, >= 0.

    Raises:
        ValueError: if the shapes differ or the batch is empty.

    Source:
        sentence-transformers' CT with in-batch negatives; not in the paper.
    """
    check_views(first, second)
    logits = cosine_matrix(first, second) * log_scale.exp()
    target = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def tension_pairs(
    positives: Sequence[int], negatives: Sequence[int], *, count: int, anchored: bool = False
) -> tuple[list[int], list[int], list[int]]:
    """Pairs of sentences: each positive beside itself, then `count` pairs of unlike sentences.

    Args:
        positives: P sentences, by number.
        negatives: further ones that were drawn: 2 * count for each positive, of which an anchored
            batch reads the first P * count.
        count: pairs of unlike sentences for each positive.
        anchored: whether these have the positive for their first sentence; else both are drawn.

    Returns:
        The first sentences, the second sentences and the labels of P * (1 + count) pairs.

    Raises:
        ValueError: if there are too few negatives.

    Source:
        Carlsson et al. 2021 (CT), as its released code pairs them; anchored is another reading.
    """
    taken = count if anchored else 2 * count
    if len(negatives) < taken * len(positives):
        raise ValueError(
            f"expected {taken} negatives for each of {len(positives)} positives, "
            f"got {len(negatives)}"
        )
    first, second, labels = list[int](), list[int](), list[int]()
    for place, positive in enumerate(positives):
        drawn = negatives[place * taken : (place + 1) * taken]
        first += [positive, *([positive] * count if anchored else drawn[:count])]
        second += [positive, *(drawn if anchored else drawn[count:])]
        labels += [1, *[0] * count]
    return first, second, labels
