"""Encodes a view of a batch: its sentences, augmented, in one pass."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from cse_methods.augmentation.registry import AUGMENTATIONS, View, change_embeddings, change_pieces
from cse_methods.encoders.edits import UNEDITED, Edits
from cse_methods.training.student import StudentProtocol


def encode_view(
    student: StudentProtocol, contents: Sequence[list[int]], view: View, *, max_length: int
) -> Tensor:
    """Augment sentences, given as their word pieces without special ones, and encode them.

    Word pieces are changed first, then positions, then the output of the embedding layer; changes
    of one level are applied in the order of the view. A row has at most `max_length` word pieces,
    special ones included.

    Returns:
        Embeddings after the head, shape (B, D), float32.

    TrainingError if spans are to be masked, but the backbone has no mask token.
    """
    template = student.encoder.template
    change = partial(
        change_pieces,
        view=view,
        longest=max_length - len(template),
        mask=student.encoder.tokenizer.mask_token_id,
    )
    rows = [template(change(content)) for content in contents]
    (vectors,) = student.encode(rows, list, edits=edit_rows(view, list(map(len, rows))))
    return vectors


def edit_rows(view: View, lengths: Sequence[int]) -> Edits:
    """Build the edits of positions and embeddings for rows of these lengths in word pieces."""
    edits = UNEDITED
    for name, _ in view:
        if change := AUGMENTATIONS[name].positions:
            edits = replace(edits, positions=[change(length) for length in lengths])
        if AUGMENTATIONS[name].embeddings:
            edits = replace(edits, embeddings=partial(change_embeddings, view=view))
    return edits
