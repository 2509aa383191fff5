"""A student that encodes sentences by segments, as HiCL does, for any objective."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.edits import UNEDITED, Edits
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.word_pieces import cut_segments
from cse_methods.losses.segments import pool_segments
from cse_methods.training.student import RowTemplate, StudentOf, StudentProtocol


@dataclass(frozen=True)
class Segments:
    """The segments of a batch, sentence after sentence, in each of their views."""

    views: tuple[Tensor, ...]
    """One of shape (S, D) each."""
    sequence: Tensor
    """The sentence of each segment, in [0, B), shape (S,)."""
    sentences: tuple[Tensor, ...]
    """Their pooled vectors in each view, one of shape (B, D) each."""


class SlicedStudent(StudentOf):
    """A student whose sentences are cut into segments, encoded by themselves, and pooled.

    Rows are never longer than a segment, so that the cost of a sentence grows with its length and
    not with the square of it. A segment has `length` word pieces, without prompt, of which
    `special` are special. If `weighted`, a segment counts by its length in the mean over a
    sentence's segments.
    """

    def __init__(
        self, student: StudentProtocol, *, length: int, special: int, weighted: bool
    ) -> None:
        super().__init__(student)
        self.length = length
        self.special = special
        self.weighted = weighted

    def encode(
        self,
        contents: Sequence[list[int]],
        *templates: RowTemplate,
        head: bool = True,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> tuple[Tensor, ...]:
        """Encode sentences as `Student.encode`; a sentence's vector is pooled from its segments.

        The rows that are edited are those of segments.
        """
        segments = self.encode_segments(
            contents, *templates, head=head, encoder=encoder, edits=edits
        )
        return segments.sentences

    def encode_segments(
        self,
        contents: Sequence[list[int]],
        *templates: RowTemplate,
        head: bool = True,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> Segments:
        """Encode every segment in each template, and pool them into vectors of sentences."""
        sliced = [cut_segments(content, self.length - self.special) for content in contents]
        segments = [segment for own in sliced for segment in own]
        sequence = torch.tensor([row for row, own in enumerate(sliced) for _ in own])
        weights = torch.tensor([max(1, len(segment) + self.special) for segment in segments])
        views = self.student.encode(segments, *templates, head=head, encoder=encoder, edits=edits)
        device = views[0].device
        sequence = send_tensor(sequence, device)
        weighing = send_tensor(weights, device) if self.weighted else None
        count = len(contents)
        pooled = tuple(pool_segments(view, sequence, weighing, count=count) for view in views)
        return Segments(views, sequence, pooled)
