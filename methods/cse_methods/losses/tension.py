"""CT's losses: two encoders agree on a sentence, and on nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.similarity import check_views, cosine_matrix


class Pairs(NamedTuple):
    """Pairs of sentences by their numbers, one for each encoder, positives and their negatives."""

    first: list[int]
    second: list[int]
    labels: list[int]
    """1 where both are the same sentence by design, else 0."""


def build_pairs(
    positives: Sequence[int], negatives: Sequence[int], *, per_positive: int, anchored: bool
) -> Pairs:
    """Pair each positive with itself, then what is drawn for its negatives.

    Args:
        positives: P sentences.
        negatives: 2 P K of them, of which the first K of each 2 K meet the next K; anchored, P K,
            which meet their positive.
        per_positive: K >= 1 negatives that follow a positive.
        anchored: whether a negative pair has the positive's own sentence, as in the paper, or two
            other sentences, as in the released code.

    Raises:
        ValueError: if the negatives are not as many.

    Source:
        Carlsson et al. 2021 (CT), section 3, and its released code.
    """
    each = per_positive if anchored else 2 * per_positive
    if len(negatives) != len(positives) * each:
        raise ValueError(
            f"expected {len(positives) * each} negatives of {len(positives)} positives, got "
            f"{len(negatives)}"
        )
    pairs = Pairs([], [], [])
    for place, positive in enumerate(positives):
        drawn = list(negatives[place * each : (place + 1) * each])
        met = drawn[-per_positive:]
        ours = [positive] * per_positive if anchored else drawn[:per_positive]
        pairs.first.extend([positive, *ours])
        pairs.second.extend([positive, *met])
        pairs.labels.extend([1, *[0] * per_positive])
    return pairs


def contrastive_tension(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    r"""Binary cross-entropy of whether two sentences are one, from the product of their vectors.

    .. math:: \mathrm{softplus}(a_i \cdot b_i) - y_i \, a_i \cdot b_i

    Args:
        first: embeddings a by the first encoder, shape (B, D); not normalised.
        second: embeddings b by the second encoder, shape (B, D).
        labels: y, 1 for a positive pair, else 0, shape (B,).

    Returns:
        The loss of each pair, in nats, shape (B,).

    Raises:
        ValueError: if shapes differ or the batch is empty.

    Source:
        Carlsson et al. 2021 (CT), which takes the mean over pairs; the port of
        sentence-transformers takes the sum.
    """
    check_views(first, second)
    logits = (first * second).sum(dim=1)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits), reduction="none")


def in_batch_tension(first: Tensor, second: Tensor, *, log_scale: Tensor) -> tuple[Tensor, Tensor]:
    r"""Cross-entropy of finding a sentence by the other encoder in the batch, both ways.

    With :math:`s` the cosines and :math:`c` the scale,

    .. math:: L_1 = -\frac{1}{B} \sum_i \log \frac{e^{c s_{ii}}}{\sum_j e^{c s_{ij}}}

    :math:`L_2` is the same with the encoders exchanged. The loss is their mean.

    Args:
        first: embeddings by the first encoder, shape (B, D).
        second: embeddings by the second encoder, shape (B, D).
        log_scale: log of c, a scalar; trained, mostly.

    Returns:
        :math:`L_1 / 2` and :math:`L_2 / 2`, scalars, in nats, >= 0.

    Raises:
        ValueError: if shapes differ or the batch is empty.

    Source:
        CT with in-batch negatives of sentence-transformers; not in Carlsson et al. 2021.
    """
    check_views(first, second)
    logits = cosine_matrix(first, second) * log_scale.exp()
    target = torch.arange(len(logits), device=logits.device)
    return F.cross_entropy(logits, target) / 2, F.cross_entropy(logits.T, target) / 2
