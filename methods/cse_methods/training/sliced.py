"""A student that encodes sentences by segments, as HiCL does, for any objective."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.word_pieces import cut_segments
from cse_methods.losses.segments import pool_segments
from cse_methods.training.student import EncodingOptions, RowTemplate, StudentOf, StudentProtocol


@dataclass(frozen=True)
class Segments:
    """The encoded segments of a batch, in the order of their sentences, in each view."""

    views: tuple[Tensor, ...]
    """One tensor of shape (S, D) per view."""
    sequence: Tensor
    """The sentence index of each segment, in [0, B), shape (S,)."""
    sentences: tuple[Tensor, ...]
    """The pooled vectors of the sentences, one tensor of shape (B, D) per view."""


class SlicedStudent(StudentOf):
    """A student that cuts sentences into segments, encodes these separately, and pools them.

    Rows are never longer than a segment, so the cost of a sentence grows linearly with its length,
    not quadratically. A segment has `length` word pieces, without prompt, of which `special` are
    special. If `weighted`, the mean over a sentence's segments is weighted by their lengths.
    """

    def __init__(
        self, student: StudentProtocol, *, length: int, special: int, weighted: bool
    ) -> None:
        super().__init__(student)
        self.length = length
        self.special = special
        self.weighted = weighted

    def encode(
        self, contents: Sequence[list[int]], *templates: RowTemplate, **how: Unpack[EncodingOptions]
    ) -> tuple[Tensor, ...]:
        """Encode sentences by vectors pooled from segments; edits apply to rows of segments."""
        return self.encode_segments(contents, *templates, **how).sentences

    def encode_segments(
        self, contents: Sequence[list[int]], *templates: RowTemplate, **how: Unpack[EncodingOptions]
    ) -> Segments:
        """Encode every segment in each template, and pool them into sentence vectors."""
        sliced = [cut_segments(content, self.length - self.special) for content in contents]
        segments = [segment for own in sliced for segment in own]
        sequence = torch.tensor([row for row, own in enumerate(sliced) for _ in own])
        weights = torch.tensor([max(1, len(segment) + self.special) for segment in segments])
        views = self.student.encode(segments, *templates, **how)
        device = views[0].device
        sequence = send_tensor(sequence, device)
        weighing = send_tensor(weights, device) if self.weighted else None
        count = len(contents)
        pooled = tuple(pool_segments(view, sequence, weighing, count=count) for view in views)
        return Segments(views, sequence, pooled)
