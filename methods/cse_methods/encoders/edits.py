"""Edits of one forward pass of an encoder: of embeddings, layer outputs, positions and dropout."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.packing import Packing
from cse_methods.errors import BackboneError

EmbeddingEdit = Callable[[Tensor, Tensor], Tensor]
"""Maps vectors of shape (B, L, D) and their mask, shape (B, L) with 1 for word pieces, to new
vectors of the same shape. Vectors at padding are never read."""


@dataclass(frozen=True)
class Edits:
    """Edits of one pass over B rows of word pieces, special ones included."""

    embeddings: EmbeddingEdit | None = None
    """Edits the output of the embedding layer, which ends in normalisation and dropout, before the
    first layer reads it. It is called once for all rows of the pass."""
    layers: Sequence[EmbeddingEdit] = ()
    """Edits of the outputs of the first layer, the second layer and so on."""
    positions: Sequence[Sequence[int]] | None = None
    """For each row, the position of each of its pieces, from 0; None numbers them consecutively.
    Negative positions are rows of the position table before the first one, as in RoBERTa."""
    dropout: bool = True
    """Whether dropout is applied in training; gradients flow either way."""

    @property
    def are_of_rows(self) -> bool:
        """Whether vectors are edited, for which all rows must be in one pass."""
        return self.embeddings is not None or bool(self.layers)


UNEDITED = Edits()


def piece_positions(
    inputs: Mapping[str, Tensor], edits: Edits, *, lowest: int, limit: int
) -> Tensor:
    """Compute the position of each of the T word pieces of a batch, from 0, shape (T,).

    Args:
        inputs: as `Encoder.pad` returns them.
        edits: can replace the positions, which otherwise number the pieces of each row.
        lowest: the lowest position that the table has, relative to the first position.
        limit: number of positions that the model has.

    BackboneError if the edits do not give one position for each piece, or one is out of range.
    """
    mask, pieces = inputs["attention_mask"], inputs["pieces"]
    if edits.positions is None:
        return pieces % mask.shape[1]
    positions = [position for row in edits.positions for position in row]
    given = [len(row) for row in edits.positions]
    # On a GPU, reading the lengths of rows would make the host wait, so only their sum is compared.
    lengths = [len(pieces)] if mask.is_cuda else mask.sum(dim=1).tolist()
    if lengths != ([sum(given)] if mask.is_cuda else given):
        raise BackboneError(
            f"a pass over rows of {lengths} word pieces is given {given} positions; each piece "
            "has one"
        )
    if not lowest <= min(positions) <= max(positions) < limit:
        raise BackboneError(
            f"a pass is given positions from {min(positions)} to {max(positions)}; the backbone "
            f"has those from {lowest} to {limit - 1}"
        )
    return send_tensor(torch.tensor(positions), pieces.device)


@contextmanager
def edited(model: Any, inputs: Mapping[str, Tensor], edits: Edits) -> Iterator[None]:
    """Apply edits of vectors and dropout to a model while the context is open.

    BackboneError if the model has no embedding layer, or too few layers, to be edited.
    """
    silenced = model.training and not edits.dropout
    with ExitStack() as after:
        if silenced:
            after.callback(model.train)
            model.eval()
        if edits.embeddings is not None:
            layer = getattr(model, "embeddings", None)
            if not isinstance(layer, nn.Module):
                kind = type(model).__name__
                raise BackboneError(f"a {kind} has no module `embeddings` whose output is edited")
            change = partial(_change_output, inputs, edits.embeddings)
            after.callback(layer.register_forward_hook(change).remove)
        layers = getattr(getattr(model, "encoder", None), "layer", [])
        if len(layers) < len(edits.layers):
            raise BackboneError(
                f"a {type(model).__name__} has {len(layers)} layers whose output is edited, and a "
                f"pass edits {len(edits.layers)}"
            )
        for layer, edit in zip(layers, edits.layers, strict=False):
            change = partial(_change_output, inputs, edit)
            after.callback(layer.register_forward_hook(change).remove)
        yield


def _change_output(
    inputs: Mapping[str, Tensor], edit: EmbeddingEdit, layer: nn.Module, given: Any, vectors: Tensor
) -> Tensor:
    """Edit the output of a layer, for padded rows or for packed rows."""
    del layer, given
    mask = inputs["attention_mask"]
    if vectors.shape[:2] == mask.shape:
        return edit(vectors, mask)
    packing = Packing(mask, inputs["pieces"])
    return packing.pack(edit(packing.unpack(vectors.squeeze(0)), mask)).unsqueeze(0)
