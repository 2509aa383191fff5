"""A template without a sentence: its vector is what the template itself adds to a sentence's."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.template import Template


def template_positions(template: Template, pieces: int, *, first: int = 0) -> list[int]:
    """The positions of a bare template's pieces, for a sentence of `pieces` pieces.

    What follows the sentence keeps the positions that it has behind the sentence.

    Args:
        template: its row without a sentence has `len(template)` pieces.
        pieces: of the sentence, >= 0.
        first: the position of the first piece.

    Source:
        Jiang et al. 2022 (PromptBERT), as its released code computes it.
    """
    before, after = len(template.before), len(template.after)
    start = first + before + pieces
    return [*range(first, first + before), *range(start, start + after)]


def denoise(vectors: Tensor, bare: Tensor, lengths: Sequence[int] | Tensor) -> Tensor:
    """The vectors of sentences in a template, less those of the bare template.

    Args:
        vectors: of the sentences, shape (B, D).
        bare: row k is that of the bare template for a sentence of k pieces, shape (K, D).
        lengths: the row of `bare` that belongs to each sentence, shape (B,), in [0, K).

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
