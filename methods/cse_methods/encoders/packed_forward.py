"""The forward pass of a packed batch, with less work if the pooler reads one piece per sentence.

For the poolers `cls` and `mask`, the last layer needs the keys and values of all pieces, but
everything else only for the piece that is read. This saves most of a layer.
"""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from cse_methods.encoders.packing import Packing


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
    return _last(last, hidden.squeeze(0), packing, read)


def _last(layer: Any, hidden: Tensor, packing: Packing, read: Tensor) -> Tensor:
    """Apply the last layer to vectors of shape (T, D) for the pieces `read`; returns (B, D)."""
    own = layer.attention.self
    heads = (-1, own.attention_head_size)
    pieces = packing.take(hidden, read)
    query = own.query(pieces).unflatten(-1, heads).unsqueeze(2)  # (B, H, 1, d)
    key, value = (
        packing.unpack(dense(hidden).unflatten(-1, heads)).transpose(1, 2)  # (B, H, L, d)
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
    vectors: Tensor = layer.feed_forward_chunk(layer.attention.output(mixed.flatten(1), pieces))
    return vectors
