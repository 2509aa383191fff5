"""The bare template: its vector without a sentence is what the template adds to a sentence's."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.template import Template


def template_positions(template: Template, pieces: int, *, first: int = 0) -> list[int]:
    """Compute the positions of a bare template's pieces for a sentence of `pieces` pieces.

    Pieces after the sentence keep the positions that they have behind it.

    Args:
        template: its row without a sentence has `len(template)` pieces.
        pieces: number of the sentence's pieces, >= 0.
        first: the position of the first piece.

    Source:
        Jiang et al. 2022 (PromptBERT), as its released code computes it.
    """
    before, after = len(template.before), len(template.after)
    start = first + before + pieces
    return [*range(first, first + before), *range(start, start + after)]


def denoise(vectors: Tensor, bare: Tensor, lengths: Sequence[int] | Tensor) -> Tensor:
    """Subtract the vectors of the bare template from those of sentences in the template.

    Args:
        vectors: of the sentences, shape (B, D).
        bare: row k is that of the bare template for a sentence of k pieces, shape (K, D).
        lengths: the row of `bare` for each sentence, shape (B,), in [0, K).

    Returns:
        Shape (B, D).

    Raises:
        ValueError: if there is not one length for each vector.

    Source:
        Jiang et al. 2022 (PromptBERT), as its released code computes it.
    """
    if len(lengths) != len(vectors):
        raise ValueError(f"expected {len(vectors)} lengths, one a vector, got {len(lengths)}")
    return vectors - bare[send_tensor(torch.as_tensor(lengths), bare.device)]
