"""HiCL: encode a long text in segments, and contrast these with each other and with whole texts.

A matrix holds the segments of all sequences of a batch; `sequence` is the number of each one's
sequence, from 0 to n - 1 without gaps.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.info_nce import NegativesFrom
from cse_methods.losses.similarity import check_temperature, check_views, cosine_matrix

SameSequence = Literal["neither", "positive", "negative"]
"""How a segment treats the other segments of its own sequence."""

Negatives = Literal["summation", "averaging"]
"""Whether a sequence counts once per segment, or all sequences count equally."""


def pool_segments(
    segments: Tensor, sequence: Tensor, weights: Tensor | None, *, count: int | None = None
) -> Tensor:
    r"""Compute embeddings of sequences as weighted means of their segments.

    .. math:: h_i = \sum_j \frac{w_{ij}}{\sum_k w_{ik}} h_{ij}

    Args:
        segments: embeddings, shape (S, D).
        sequence: the sequence of each segment, integers, shape (S,).
        weights: of the segments, usually their lengths, >= 0, shape (S,); None for equal ones.
        count: n, the number of sequences; None computes it from `sequence`, for which the host
            waits for a GPU.

    Returns:
        Shape (n, D).

    ValueError if shapes do not match; on a CPU, if no segment of a sequence has a weight above 0.
    On a GPU, which is not waited for, the embedding of such a sequence is NaN.
    Source:
        Wu et al. 2023 (HiCL), section 3.1; unweighted in its table 3.
    """
    _check_sequence(segments, sequence)
    if weights is None:
        weights = torch.ones_like(sequence)
    count = int(sequence.max()) + 1 if count is None else count
    sequences = torch.arange(count, device=sequence.device)
    own = sequence.unsqueeze(1) == sequences  # (S, n)
    shares = own * weights.to(segments.dtype).unsqueeze(1)
    totals = shares.sum(dim=0)
    if not totals.is_cuda and not (totals > 0).all():
        empty = int((totals > 0).logical_not().nonzero()[0])
        raise ValueError(f"sequence {empty} has no segment with a weight above 0")
    return (shares / totals).T @ segments


def local_contrast(
    first: Tensor,
    second: Tensor,
    sequence: Tensor,
    *,
    temperature: float,
    same_sequence: SameSequence = "neither",
    negatives: Negatives = "summation",
    negatives_from: NegativesFrom = "other_view",
) -> Tensor:
    r"""Compute InfoNCE over segments: each is to find its second view among other sequences'.

    For segment :math:`a`, with :math:`s_{ab}` its cosine with segment :math:`b` divided by
    :math:`\tau`, :math:`s^+_a` that with its own second view, and :math:`w_b` 1 or, for
    "averaging", one over the number of segments in b's sequence,

    .. math:: L = \frac{1}{S} \sum_a -\log \frac{e^{s^+_a}}{e^{s^+_a} + \sum_b w_b e^{s_{ab}}}

    where :math:`b` runs over the segments of other sequences, and over the other ones of its own
    if these are negatives. If they are positives, the term of a is the mean of this expression
    with its second view, and with each of them, in the place of :math:`s^+_a`.

    Args:
        first: embeddings of the segments, first view, shape (S, D).
        second: second view, shape (S, D).
        sequence: the sequence of each segment, integers, shape (S,).
        temperature: :math:`\tau` > 0; divides the cosines.
        same_sequence: what the other segments of the same sequence are.
        negatives: how the segments of one sequence count.
        negatives_from: the view of the segments :math:`b`, and of positives of the same sequence.

    Returns:
        Scalar, in nats, averaged over all segments, >= 0; 0 if no segment has a negative.
        With one segment per sequence this is `info_nce`.

    Raises:
        ValueError: if shapes do not match, or the temperature is not above 0.

    Source:
        Wu et al. 2023 (HiCL), eq. 2, which as printed takes negatives from the same view;
        averaging is in its appendix A.8; positives of the same sequence, for which the paper has
        no equation, follow Khosla et al. 2020 (SupCon).
    """
    check_temperature("temperature", temperature)
    check_views(first, second)
    _check_sequence(first, sequence)
    logits = cosine_matrix(first, second) / temperature  # (S, S)
    own = logits.diagonal().unsqueeze(1)  # (S, 1), its second view
    if negatives_from == "same_view":
        logits = cosine_matrix(first, first) / temperature
    same = sequence.unsqueeze(1) == sequence
    siblings = same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)
    weighted = logits
    if negatives == "averaging":
        weighted = logits - same.sum(dim=0).to(logits.dtype).log()
    excluded = same & ~siblings if same_sequence == "negative" else same
    # Minus infinity if a segment has no negatives at all: its loss and gradient are then 0.
    against = weighted.masked_fill(excluded, -torch.inf).logsumexp(dim=1, keepdim=True)  # (S, 1)
    loss = -F.logsigmoid(own - against).squeeze(1)
    if same_sequence == "positive":
        further = -F.logsigmoid(logits - against) * siblings
        loss = (loss + further.sum(dim=1)) / (1 + siblings.sum(dim=1))
    return loss.mean()


def entailment(
    segments: Tensor, sequences: Tensor, sequence: Tensor, *, temperature: float
) -> Tensor:
    r"""Compute the cross-entropy of finding the sequence that each segment belongs to.

    .. math:: L = -\frac{1}{S} \sum_{ij} \log
              \frac{e^{\cos(h_{ij}, h_i) / \tau}}{\sum_k e^{\cos(h_{ij}, h_k) / \tau}}

    Args:
        segments: embeddings, shape (S, D).
        sequences: their pooled embeddings, shape (n, D).
        sequence: the sequence of each segment, in [0, n), shape (S,).
        temperature: :math:`\tau` > 0; divides the cosines.

    Returns:
        Scalar, in nats, averaged over all segments, >= 0; 0 for a single sequence.

    Raises:
        ValueError: if shapes do not match or the temperature is not above 0; on a CPU, if a
            segment's sequence does not exist.

    Source:
        Wu et al. 2023 (HiCL), eq. 3.
    """
    check_temperature("temperature", temperature)
    _check_sequence(segments, sequence)
    # A GPU itself fails on a class that does not exist; a check here would make the host wait.
    if not sequence.is_cuda and (last := int(sequence.max())) >= len(sequences):
        raise ValueError(f"a segment of sequence {last}, but only {len(sequences)} sequences")
    return F.cross_entropy(cosine_matrix(segments, sequences) / temperature, sequence)


def _check_sequence(segments: Tensor, sequence: Tensor) -> None:
    if segments.dim() != 2 or sequence.shape != segments.shape[:1] or not len(sequence):
        raise ValueError(
            "expected segments (S, D), S >= 1, with the sequence of each (S,), "
            f"got {tuple(segments.shape)} and {tuple(sequence.shape)}"
        )
