"""The forward pass of a packed batch, and less of it where one vector a sentence is read.

Poolers that read one piece of a sentence, `cls` and `mask`, need the keys and values of all pieces
in the last layer, and everything else of that piece alone. This saves most of a layer.
"""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from cse_methods.encoders.packing import Packing


def hidden_states(
    model: Any, inputs: Mapping[str, Tensor], positions: Tensor, *, every_layer: bool
) -> list[Tensor]:
    """The vectors of all word pieces, of every layer or the last one, each of shape (B, L, D).

    Args:
        model: loaded with the kernel `packed`.
        inputs: as `Encoder.pad` gives them.
        positions: the row of the position table that each word piece has, shape (T,).
        every_layer: whether the embeddings and every layer are asked for.
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
    """The last layer's vector of one word piece of each sentence, shape (B, D).

    Args:
        model: of a family with BERT's layers, loaded with the kernel `packed`.
        inputs: as `Encoder.pad` gives them.
        column: the place of that piece in its row, shape (B,).
        positions: the row of the position table that each word piece has, shape (T,).
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
    """Shape (T, D) to (B, D)."""
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
