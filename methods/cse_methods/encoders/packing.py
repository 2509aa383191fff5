"""Rows without padding: the word pieces of a batch stand one after another in a single row.

A model's dense layers then run over real pieces only. Attention alone goes back to padded rows, so
that each sentence sees itself and no other.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACKED = "packed"
"""The name of the attention kernel, as models are loaded with."""


@cache
def register_packed_attention() -> None:
    """Let transformers load models with the kernel `packed`."""
    # Here, because these modules take seconds to import, and a driver loads no model.
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(PACKED, _attention)
    AttentionMaskInterface.register(PACKED, sdpa_mask)


def spread_mask(mask: Tensor) -> Tensor:
    """A mask of shape (B, L) as the kernel `sdpa` takes it, (B, 1, L, L).

    The library looks at one of two dimensions for whether it hides anything, for which the host
    would wait where it lies on a GPU. One of four it takes as it is.
    """
    rows, length = mask.shape
    return mask.bool()[:, None, None, :].expand(rows, 1, length, length)


class Packing:
    """Where the word pieces of a batch lie, in padded rows and in the single row.

    Args:
        mask: 1 for word pieces, 0 for padding, shape (B, L).
        pieces: the places of the T word pieces among the B * L of the padded rows, shape (T,).
    """

    def __init__(self, mask: Tensor, pieces: Tensor) -> None:
        self.rows, self.length = mask.shape
        self.pieces = pieces
        self.visible = None if len(pieces) == mask.numel() else mask.bool()[:, None, None, :]
        """What attention may look at, shape (B, 1, 1, L); None where nothing is padding."""

    def pack(self, padded: Tensor) -> Tensor:
        """Shape (B, L, ...) to (T, ...)."""
        flat = padded.reshape(self.rows * self.length, *padded.shape[2:])
        packed: Tensor = _Gather.apply(flat, self.pieces)  # type: ignore[no-untyped-call]
        return packed

    @staticmethod
    def take(packed: Tensor, places: Tensor) -> Tensor:
        """The rows of (T, ...) at distinct places, shape (B, ...)."""
        taken: Tensor = _Gather.apply(packed, places)  # type: ignore[no-untyped-call]
        return taken

    def unpack(self, packed: Tensor) -> Tensor:
        """Shape (T, ...) to (B, L, ...), with zeros for padding."""
        places = self.rows * self.length
        flat: Tensor = _Scatter.apply(packed, self.pieces, places)  # type: ignore[no-untyped-call]
        return flat.view(self.rows, self.length, *packed.shape[1:])


class _Gather(torch.autograd.Function):
    """Rows at distinct places. PyTorch's own backward adds them up one by one, which is slow."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.rows = len(flat)
        return flat.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        return _scatter(gradients[0], places, ctx.rows), None


class _Scatter(torch.autograd.Function):
    """Rows to distinct places among zeros."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor, places: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(places)
        return _scatter(packed, places, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        return gradients[0].index_select(0, places), None, None


def _scatter(packed: Tensor, places: Tensor, rows: int) -> Tensor:
    return packed.new_zeros(rows, *packed.shape[1:]).index_copy_(0, places, packed)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packing: Packing | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention within each sentence of a packed row; without `packing` as the kernel `sdpa`.

    Query, key and value have the shape (1, H, T, d), the result (1, T, H, d).
    """
    if packing is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        padded, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **options
        )
        return padded, None
    # (1, H, T, d) -> (B, H, L, d)
    queries, keys, values = (
        packing.unpack(each.squeeze(0).transpose(0, 1)).transpose(1, 2)
        for each in (query, key, value)
    )
    mixed = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=packing.visible, dropout_p=dropout, scale=scaling
    )
    return packing.pack(mixed.transpose(1, 2)).unsqueeze(0), None
