"""The interface of encoders, with or without a transformer, that are scored on dev and saved."""

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self

import torch
from torch import Tensor

from cse_methods.encoders.saved_layers import SavedLayer


class SentenceEncoder(Protocol):
    """Encodes sentences to one vector each, as at test time."""

    @property
    def width(self) -> int:
        """D, the width of the embeddings."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""

    @property
    def reading_key(self) -> Hashable:
        """What the output of `rows` depends on: encoders with equal keys give equal rows."""

    @property
    def post_pooling(self) -> list[SavedLayer]:
        """The layers after the pooler, in order."""

    def rows(self, sentences: Sequence[str], *, max_length: int | None = None) -> list[list[int]]:
        """Return the words or word pieces of each sentence, at most `max_length` of them."""

    def batches(self, rows: Sequence[list[int]]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield indices into `rows` and their vectors, shape (B, D), float32, on the CPU."""

    def encode_rows(self, rows: Sequence[list[int]]) -> Tensor:
        """Encode N rows: shape (N, D), float32, on the CPU."""

    def encode(self, sentences: Sequence[str], *, max_length: int | None = None) -> Tensor:
        """Encode N sentences: shape (N, D), float32, on the CPU."""

    def with_post_pooling(self, *layers: SavedLayer) -> Self:
        """Return an encoder that shares this one's weights, with further layers at the end."""

    def save(self, folder: Path) -> None:
        """Write a folder from which an encoder with the same vectors can be loaded."""

    def to(self, device: torch.device | str, /) -> Self:
        """Move this encoder to a device, and return it."""
