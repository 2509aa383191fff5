"""Detection of replaced word pieces, given the vector of the original sentence."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

DetectedOver = Literal["all", "real"]
"""The positions over which the loss is averaged: all, or all except padding."""


def replace_first_embedding(embeddings: Tensor, vectors: Tensor) -> Tensor:
    """Replace the embedding of the first word piece, [CLS], by the vector of the sentence.

    Args:
        embeddings: of word pieces, shape (B, L, D).
        vectors: of sentences, shape (B, D); gradients flow through them.

    Returns:
        Shape (B, L, D).

    Source:
        Chuang et al. 2022 (DiffCSE): this conditions the discriminator of the released code.
    """
    return torch.cat([vectors[:, None].to(embeddings), embeddings[:, 1:]], dim=1)


def replaced_piece_loss(
    logits: Tensor, labels: Tensor, mask: Tensor, *, over: DetectedOver = "all"
) -> Tensor:
    r"""Compute the cross-entropy of classifying word pieces as original or replaced.

    .. math:: L_{RTD} = -\frac{1}{|P|} \sum_{p \in P} \log \mathrm{softmax}(logits_p)_{label_p}

    Args:
        logits: for original and replaced, shape (B, L, 2).
        labels: 1 for replaced pieces, 0 for others and padding, shape (B, L).
        mask: 1 for word pieces, 0 for padding, shape (B, L).
        over: `all` averages over all B * L positions, padding included, as in the released code;
            `real` averages over word pieces.

    Returns:
        Scalar, in nats, >= 0.

    Source:
        Chuang et al. 2022 (DiffCSE), section 3.
    """
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    if over == "all":
        return losses.mean()
    real = mask.flatten().to(losses)
    return (losses * real).sum() / real.sum()
