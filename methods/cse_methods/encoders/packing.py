"""Rows without padding: all word pieces of a batch are packed into a single row.

A model's dense layers then only process real pieces. Attention still uses padded rows, so that each
sentence attends to itself alone. For the poolers `cls` and `mask`, the last layer needs the keys
and values of all pieces, but everything else only for the piece that is read.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACKED = "packed"
"""The name of the attention kernel, under which models are loaded."""


@cache
def register_packed_attention() -> None:
    """Register the kernel `packed` with transformers."""
    # Imported here, because these modules take seconds, and a driver never loads a model.
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(PACKED, _attend_within_sentences)
    AttentionMaskInterface.register(PACKED, sdpa_mask)


def spread_mask(mask: Tensor) -> Tensor:
    """Expand a mask of shape (B, L) to (B, 1, L, L), as the kernel `sdpa` accepts it.

    With a mask of two dimensions the library checks whether it hides anything, for which the host
    would wait if it is on a GPU. One of four dimensions is used without a check.
    """
    rows, length = mask.shape
    return mask.bool()[:, None, None, :].expand(rows, 1, length, length)


class Packing:
    """Converts between padded rows and the packed row of a batch.

    Args:
        mask: 1 for word pieces, 0 for padding, shape (B, L).
        pieces: the indices of the T word pieces among the B * L padded places, shape (T,).
    """

    def __init__(self, mask: Tensor, pieces: Tensor) -> None:
        self.rows, self.length = mask.shape
        self.pieces = pieces
        self.visible = None if len(pieces) == mask.numel() else mask.bool()[:, None, None, :]
        """The mask for attention, shape (B, 1, 1, L); None if there is no padding."""

    def pack(self, padded: Tensor) -> Tensor:
        """Pack a tensor of shape (B, L, ...) to shape (T, ...)."""
        flat = padded.reshape(self.rows * self.length, *padded.shape[2:])
        packed: Tensor = _Gather.apply(flat, self.pieces)  # type: ignore[no-untyped-call]
        return packed

    def unpack(self, packed: Tensor) -> Tensor:
        """Unpack a tensor of shape (T, ...) to shape (B, L, ...), with zeros at padding."""
        size = self.rows * self.length
        flat: Tensor = _Scatter.apply(packed, self.pieces, size)  # type: ignore[no-untyped-call]
        return flat.view(self.rows, self.length, *packed.shape[1:])


class _Gather(torch.autograd.Function):
    """Select rows at distinct indices; PyTorch's backward would add them up one by one, slowly."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.rows = len(flat)
        return flat.index_select(0, indices)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        (gradient,) = gradients
        zeros = gradient.new_zeros(ctx.rows, *gradient.shape[1:])
        return zeros.index_copy_(0, indices, gradient), None


class _Scatter(torch.autograd.Function):
    """Write rows to distinct indices among zeros."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor, indices: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(indices)
        return packed.new_zeros(rows, *packed.shape[1:]).index_copy_(0, indices, packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (indices,) = ctx.saved_tensors
        return gradients[0].index_select(0, indices), None, None


def _attend_within_sentences(
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
    """Attend within each sentence of a packed row; without `packing`, as the kernel `sdpa`.

    Query, key and value have shape (1, H, T, d), the result has shape (1, T, H, d).
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


def hidden_states(
    model: Any, inputs: Mapping[str, Tensor], positions: Tensor, *, every_layer: bool
) -> list[Tensor]:
    """Compute the vectors of all word pieces, of every layer or the last, each (B, L, D).

    Args:
        model: loaded with the kernel `packed`.
        inputs: as `Encoder.pad` returns them.
        positions: the row in the position table of each word piece, shape (T,).
        every_layer: whether to return the embeddings and every layer.
    """
    packing = Packing(inputs["attention_mask"], inputs["pieces"])
    ids = packing.pack(inputs["input_ids"])
    output = model(
        ids.unsqueeze(0),
        position_ids=positions.unsqueeze(0),
        output_hidden_states=every_layer,
        return_dict=True,
        packing=packing,
    )
    states = output.hidden_states if every_layer else (output.last_hidden_state,)
    return [packing.unpack(state.squeeze(0)) for state in states]


def read_one_piece(
    model: Any, inputs: Mapping[str, Tensor], column: Tensor | int, positions: Tensor
) -> Tensor:
    """Compute the last layer's vector of one word piece of each sentence, shape (B, D).

    Args:
        model: of a family with BERT's layers, loaded with the kernel `packed`.
        inputs: as `Encoder.pad` returns them.
        column: the index of that piece in its row, shape (B,).
        positions: the row in the position table of each word piece, shape (T,).
    """
    packing = Packing(inputs["attention_mask"], inputs["pieces"])
    ids = packing.pack(inputs["input_ids"])
    lengths = inputs["attention_mask"].sum(dim=1)
    read = lengths.cumsum(0) - lengths + column
    hidden = model.embeddings(input_ids=ids.unsqueeze(0), position_ids=positions.unsqueeze(0))
    *layers, last = model.encoder.layer
    for layer in layers:
        hidden = layer(hidden, packing=packing)
    packed = hidden.squeeze(0)
    own = last.attention.self
    heads = (-1, own.attention_head_size)
    pieces: Tensor = _Gather.apply(packed, read)  # type: ignore[no-untyped-call]
    query = own.query(pieces).unflatten(-1, heads).unsqueeze(2)  # (B, H, 1, d)
    key, value = (
        packing.unpack(dense(packed).unflatten(-1, heads)).transpose(1, 2)  # (B, H, L, d)
        for dense in (own.key, own.value)
    )
    mixed = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=packing.visible,
        dropout_p=own.dropout.p if own.training else 0.0,
        scale=own.scaling,
    )
    vectors: Tensor = last.feed_forward_chunk(last.attention.output(mixed.flatten(1), pieces))
    return vectors
