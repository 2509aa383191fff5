"""CT's losses: two encoders are to agree on equal sentences, and on no others."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.similarity import check_views, cosine_matrix, find_positive


def build_pairs(
    positives: Sequence[int], negatives: Sequence[int], *, per_positive: int, anchored: bool
) -> tuple[list[int], list[int]]:
    """Pair each positive with itself, followed by its negative pairs.

    Args:
        positives: P sentences.
        negatives: if not anchored, 2 P K sentences, in whose groups of 2 K the first K are paired
            with the last K; if anchored, P K, which are paired with their positive.
        per_positive: K >= 1, the number of negative pairs per positive.
        anchored: whether a negative pair has the positive itself, as in the paper, or two other
            sentences, as in the released code.

    Returns:
        The sentence of the first encoder in each pair, and that of the second; a positive pair
        stands before its K negative ones.

    Source:
        Carlsson et al. 2021 (CT), section 3, and its released code.
    """
    each = per_positive if anchored else 2 * per_positive
    first, second = list[int](), list[int]()
    for index, positive in enumerate(positives):
        drawn = list(negatives[index * each : (index + 1) * each])
        met = drawn[-per_positive:]
        ours = [positive] * per_positive if anchored else drawn[:per_positive]
        first += [positive, *ours]
        second += [positive, *met]
    return first, second


def contrastive_tension(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    r"""Compute the binary cross-entropy of whether two sentences are equal, from dot products.

    .. math:: \mathrm{softplus}(a_i \cdot b_i) - y_i \, a_i \cdot b_i

    Args:
        first: embeddings a of the first encoder, shape (B, D); not normalised.
        second: embeddings b of the second encoder, shape (B, D).
        labels: y, 1 for a positive pair, otherwise 0, shape (B,).

    Returns:
        The loss of each pair, in nats, shape (B,).

    Source:
        Carlsson et al. 2021 (CT), which takes the mean over pairs; the port in
        sentence-transformers takes the sum.
    """
    check_views(first, second)
    logits = (first * second).sum(dim=1)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits), reduction="none")


def in_batch_tension(first: Tensor, second: Tensor, *, log_scale: Tensor) -> tuple[Tensor, Tensor]:
    r"""Compute the cross-entropy of finding a sentence's vector of the other encoder, both ways.

    With :math:`s` the cosines and :math:`c` the scale,

    .. math:: L_1 = -\frac{1}{B} \sum_i \log \frac{e^{c s_{ii}}}{\sum_j e^{c s_{ij}}}

    :math:`L_2` is the same with the encoders exchanged. The loss is their mean.

    Args:
        first: embeddings of the first encoder, shape (B, D).
        second: embeddings of the second encoder, shape (B, D).
        log_scale: the logarithm of c, a scalar; usually trained.

    Returns:
        :math:`L_1 / 2` and :math:`L_2 / 2`, scalars, in nats, >= 0.

    Source:
        CT with in-batch negatives, in sentence-transformers; not in Carlsson et al. 2021.
    """
    check_views(first, second)
    logits = cosine_matrix(first, second) * log_scale.exp()
    return find_positive(logits) / 2, find_positive(logits.T) / 2
