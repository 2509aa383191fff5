"""What a method changes in one pass of an encoder: embeddings, positions, dropout."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.packing import Packing
from cse_methods.errors import BackboneError

EmbeddingEdit = Callable[[Tensor, Tensor], Tensor]
"""From vectors of shape (B, L, D) and their mask, (B, L) with 1 for word pieces, to new vectors of
the same shape. What stands at padding is read by nothing."""


@dataclass(frozen=True)
class Edits:
    """Changes of one pass over B rows of word pieces, special ones included."""

    embeddings: EmbeddingEdit | None = None
    """What the encoder's layers read in place of the output of its embedding layer, which ends in
    normalisation and dropout. It is called once for all rows of the pass."""
    layers: Sequence[EmbeddingEdit] = ()
    """What follows the first layer, the second and so on in place of their output."""
    positions: Sequence[Sequence[int]] | None = None
    """For each row the position of each of its pieces, counted from 0; None counts them. Below 0
    are the rows of the position table before the first one, which RoBERTa has."""
    dropout: bool = True
    """Whether there is dropout in training; gradients flow either way."""

    @property
    def are_of_rows(self) -> bool:
        """Whether vectors are edited, for all rows at once."""
        return self.embeddings is not None or bool(self.layers)

    def of_rows(self, start: int, stop: int) -> Self:
        """The changes of some of the rows."""
        positions = None if self.positions is None else self.positions[start:stop]
        return replace(self, positions=positions)


UNEDITED = Edits()


def piece_positions(
    inputs: Mapping[str, Tensor], edits: Edits, *, lowest: int, limit: int
) -> Tensor:
    """The position of each of the T word pieces of a batch, counted from 0, shape (T,).

    Args:
        inputs: as `Encoder.pad` gives them.
        edits: may give other positions than the places of the pieces in their rows.
        lowest: the first row of the position table, counted from that of the first position.
        limit: positions that the model has.

    Raises:
        BackboneError: if the edits have not one position for each piece, or one that is not there.
    """
    mask, pieces = inputs["attention_mask"], inputs["pieces"]
    if edits.positions is None:
        return pieces % mask.shape[1]
    positions = [place for row in edits.positions for place in row]
    given = [len(row) for row in edits.positions]
    # The lengths of rows would have to be awaited from a GPU, where their sum has to do.
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
    """Let a model read other embeddings, and drop nothing out if the edits say so.

    Raises:
        BackboneError: if the model has no embedding layer, or fewer layers, whose output could be
            changed.
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
        for layer, edit in zip(_first_layers(model, len(edits.layers)), edits.layers, strict=True):
            change = partial(_change_output, inputs, edit)
            after.callback(layer.register_forward_hook(change).remove)
        yield


def _first_layers(model: Any, count: int) -> list[nn.Module]:
    """The first layers of a model; BackboneError if it has not so many of BERT's."""
    if not count:
        return []
    layers = getattr(getattr(model, "encoder", None), "layer", [])
    if len(layers) < count:
        raise BackboneError(
            f"a {type(model).__name__} has {len(layers)} layers whose output is edited, and a pass "
            f"edits {count}"
        )
    return list(layers[:count])


def _change_output(
    inputs: Mapping[str, Tensor], edit: EmbeddingEdit, layer: nn.Module, given: Any, vectors: Tensor
) -> Tensor:
    """Edit what a layer gives, for padded rows or for rows without padding."""
    del layer, given
    mask = inputs["attention_mask"]
    if vectors.shape[:2] == mask.shape:
        return edit(vectors, mask)
    packing = Packing(mask, inputs["pieces"])
    return packing.pack(edit(packing.unpack(vectors.squeeze(0)), mask)).unsqueeze(0)
