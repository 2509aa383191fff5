"""The encoder being trained, with its head: what an objective sees of the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cse_methods.contract import MethodConfig, Precision
from cse_methods.encoder import Encoder, Head, load_encoder

AUTOCAST: dict[Precision, torch.dtype | None] = {
    "fp32": None,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


@dataclass(frozen=True)
class Batch:
    """One batch of training sentences."""

    sentences: list[str]
    rows: NDArray[np.int64]
    """Their places in the corpus, shape (B,): where a teacher's vectors are looked up."""


class Student(nn.Module):
    """An encoder and the head that follows it in training.

    Args:
        encoder: gives one vector a sentence.
        head: follows the pooler in training; `nn.Identity()` for none.
        max_length: sentences are cut here, in word pieces, special ones included.
        chunks: a batch is encoded in this many pieces, and each is encoded again in the backward
            pass, so that memory falls while the negatives stay the whole batch.
        precision: of the forward pass; embeddings, and so the losses, are float32 always.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        *,
        max_length: int,
        chunks: int = 1,
        precision: Precision = "fp32",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.max_length = max_length
        self.chunks = chunks
        self.autocast = AUTOCAST[precision]

    @classmethod
    def from_config(cls, config: MethodConfig) -> "Student":
        """The backbone of `config`, and a fresh head where it asks for one."""
        encoder = load_encoder(
            config.backbone,
            pooler=config.pooler,
            first_layer=config.first_layer,
            attention=config.attention,
            dropout=config.dropout,
        )
        head = Head(encoder.width) if config.head else nn.Identity()
        return cls(
            encoder,
            head,
            max_length=config.max_length,
            chunks=config.gradient_accumulation,
            precision=config.precision,
        )

    def views(self, sentences: Sequence[str], *, count: int) -> tuple[Tensor, ...]:
        """`count` encodings of each sentence, which differ by dropout alone.

        Returns:
            `count` tensors of shape (B, D), float32, after the head.
        """
        inputs = self.encoder.tokenize(sentences, max_length=self.max_length)
        repeated = {name: rows.repeat(count, 1) for name, rows in inputs.items()}
        return self.embed(repeated).chunk(count)

    def embed(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Token ids and masks of shape (N, L) to embeddings of shape (N, D), after the head."""
        if self.chunks == 1:
            return self._encode(dict(inputs))
        rows = len(next(iter(inputs.values())))
        pieces = torch.arange(rows).chunk(self.chunks)
        parts = [{name: rows[piece] for name, rows in inputs.items()} for piece in pieces]
        return torch.cat([checkpoint(self._encode, part, use_reentrant=False) for part in parts])

    def _encode(self, inputs: dict[str, Tensor]) -> Tensor:
        device, dtype = self.encoder.device.type, self.autocast
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            embeddings: Tensor = self.head(self.encoder(inputs))
        return embeddings.float()
