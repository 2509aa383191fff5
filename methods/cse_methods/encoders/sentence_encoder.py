"""What can be scored on dev and saved: the interface of encoders with and without a transformer."""

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self

import torch
from torch import Tensor

from cse_methods.encoders.saved_layers import SavedLayer


class SentenceEncoder(Protocol):
    """Sentences in, one vector a sentence out, as at test time."""

    @property
    def width(self) -> int:
        """D of the embeddings."""

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""

    @property
    def reading_key(self) -> Hashable:
        """What `rows` depends on: encoders with equal keys give equal rows."""

    @property
    def post_pooling(self) -> list[SavedLayer]:
        """The layers after the pooler, in order."""

    def rows(self, sentences: Sequence[str], *, max_length: int | None = None) -> list[list[int]]:
        """The words or word pieces of each sentence, cut after `max_length` of them."""

    def batches(self, rows: Sequence[list[int]]) -> Iterator[tuple[list[int], Tensor]]:
        """Places in `rows` and their vectors, shape (B, D), float32, on the CPU."""

    def encode_rows(self, rows: Sequence[list[int]]) -> Tensor:
        """Embeddings of N rows: shape (N, D), float32, on the CPU."""

    def encode(self, sentences: Sequence[str], *, max_length: int | None = None) -> Tensor:
        """Embeddings of N sentences: shape (N, D), float32, on the CPU."""

    def with_post_pooling(self, *layers: SavedLayer) -> Self:
        """An encoder that shares this one's weights and has further layers at the end."""

    def save(self, folder: Path) -> None:
        """Write a folder from which an encoder with the same vectors is loaded."""

    def to(self, device: torch.device | str, /) -> Self:
        """This encoder, moved to a device."""
