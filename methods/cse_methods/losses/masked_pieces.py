"""Masked language modelling: predict the word pieces that were masked."""

import torch.nn.functional as F
from torch import Tensor

UNLABELLED = -100
"""The label of a position that is not predicted."""


def masked_piece_loss(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Compute the cross-entropy of predicting the masked word pieces.

    .. math:: L_{MLM} = -\frac{1}{|M|} \sum_{p \in M} \log \mathrm{softmax}(logits_p)_{label_p}

    Args:
        logits: for each word piece of the vocabulary, shape (..., V).
        labels: the original piece, or `UNLABELLED` for positions that do not count; shape (...).

    Returns:
        Scalar, in nats, >= 0; 0 if no position counts.

    Source:
        Devlin et al. 2019 (BERT); for sentences Wu et al. 2022 (InfoCSE).
    """
    total = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=UNLABELLED, reduction="sum"
    )
    return total / labels.ne(UNLABELLED).sum().clamp(min=1)
