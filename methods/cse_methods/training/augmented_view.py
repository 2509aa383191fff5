"""A view of a batch: its sentences, augmented and encoded in one pass."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from cse_methods.augmentation.registry import (
    AUGMENTATIONS,
    Row,
    View,
    change_embeddings,
    change_pieces,
)
from cse_methods.encoders.edits import UNEDITED, Edits
from cse_methods.training.student import StudentProtocol


def encode_view(
    student: StudentProtocol, contents: Sequence[list[int]], view: View, *, max_length: int
) -> Tensor:
    """Augment sentences and encode them.

    Word pieces are changed first, then positions, then the output of the embedding layer; changes
    of one level follow one another as the view has them.

    Args:
        student: what is trained.
        contents: B >= 1 sentences' word pieces without special ones.
        view: the augmentations; without any, the sentences are read as they are.
        max_length: word pieces of a row at most, special ones included.

    Returns:
        Embeddings after the head, shape (B, D), float32.

    Raises:
        TrainingError: if spans are to be masked, and the backbone has no mask.
    """
    template = student.encoder.template
    row = Row(max_length - len(template), student.encoder.tokenizer.mask_token_id)
    rows = [template(change_pieces(content, view, row)) for content in contents]
    (vectors,) = student.encode(rows, list, edits=edit_rows(view, list(map(len, rows))))
    return vectors


def edit_rows(view: View, lengths: Sequence[int]) -> Edits:
    """The changes of positions and embeddings of a pass over rows of so many word pieces."""
    edits = UNEDITED
    for name, _ in view:
        if change := AUGMENTATIONS[name].positions:
            edits = replace(edits, positions=[change(length) for length in lengths])
        if AUGMENTATIONS[name].embeddings:
            edits = replace(edits, embeddings=partial(change_embeddings, view=view))
    return edits
