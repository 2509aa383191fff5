"""Masked language modelling: word pieces that were hidden are guessed."""

import torch.nn.functional as F
from torch import Tensor

UNLABELLED = -100
"""The label of a place whose guess does not count."""


def masked_piece_loss(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Cross-entropy of guessing the word pieces at hidden places.

    .. math:: L_{MLM} = -\frac{1}{|M|} \sum_{p \in M} \log \mathrm{softmax}(logits_p)_{label_p}

    Args:
        logits: for each word piece of the vocabulary, shape (..., V).
        labels: the piece that stood there; `UNLABELLED` where a place does not count; shape (...).

    Returns:
        Scalar, in nats, >= 0; 0 where no place counts.

    Source:
        Devlin et al. 2019 (BERT); for sentences Wu et al. 2022 (InfoCSE).
    """
    total = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=UNLABELLED, reduction="sum"
    )
    return total / labels.ne(UNLABELLED).sum().clamp(min=1)
