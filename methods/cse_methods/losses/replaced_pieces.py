"""Detection of replaced word pieces, told the vector of the sentence as it was before."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

DetectedOver = Literal["all", "real"]
"""The places that detection is averaged over: all of them, or all but padding."""


def replace_first_embedding(embeddings: Tensor, vectors: Tensor) -> Tensor:
    """Put a sentence's vector where its first word piece, [CLS], is embedded.

    Args:
        embeddings: of word pieces, shape (B, L, D).
        vectors: of sentences, shape (B, D); gradients flow through them.

    Returns:
        Shape (B, L, D).

    Source:
        Chuang et al. 2022 (DiffCSE), as its released code tells the discriminator of a sentence.
    """
    return torch.cat([vectors[:, None].to(embeddings), embeddings[:, 1:]], dim=1)


def replaced_piece_loss(
    logits: Tensor, labels: Tensor, mask: Tensor, *, over: DetectedOver = "all"
) -> Tensor:
    r"""Cross-entropy of telling replaced word pieces from those that stayed.

    .. math:: L_{RTD} = -\frac{1}{|P|} \sum_{p \in P} \log \mathrm{softmax}(logits_p)_{label_p}

    Args:
        logits: for stayed and replaced, shape (B, L, 2).
        labels: 1 where a piece was replaced, 0 elsewhere and at padding, shape (B, L).
        mask: 1 for word pieces, 0 for padding, shape (B, L).
        over: `all` averages over all B * L places, padding included, as the released code does;
            `real` over those of word pieces.

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
