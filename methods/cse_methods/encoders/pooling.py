"""Poolers: reduce the vectors of a sentence's word pieces to one."""

from collections.abc import Sequence

import torch
from torch import Tensor

from cse_methods.encoders.sentence_transformers_format import Pooling


def pool(
    hidden_states: Sequence[Tensor], mask: Tensor, pooling: Pooling, *, marked: Tensor | None = None
) -> Tensor:
    """Pool the vectors of word pieces to one vector per sentence, before any head.

    Args:
        hidden_states: the embeddings and the output of every layer, each of shape (B, L, D);
            `cls`, `avg` and `mask` only need the last one.
        mask: 1 for word pieces, special ones included, 0 for padding, shape (B, L).
        pooling: which pieces of which layers are averaged.
        marked: for `mask`, the index of the [MASK] piece in each row, shape (B,).

    Returns:
        Shape (B, D).
    """
    if pooling.pooler == "mask":
        assert marked is not None
        return hidden_states[-1][torch.arange(len(marked), device=marked.device), marked]
    if pooling.pooler == "cls":
        return hidden_states[-1][:, 0]
    if pooling.pooler == "avg":
        tokens = hidden_states[-1]
    elif pooling.pooler == "avg_top2":
        tokens = (hidden_states[-1] + hidden_states[-2]) / 2
    else:
        tokens = (hidden_states[pooling.first_layer] + hidden_states[-1]) / 2
    weights = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * weights).sum(dim=1) / weights.sum(dim=1)
