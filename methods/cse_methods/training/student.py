"""The student: the encoder in training with its head, as objectives use it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cse_methods.config import TrainingConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import computing_in, send_tensor
from cse_methods.encoders.edits import UNEDITED, Edits
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.families import refuse_half_precision
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.encoders.template import Template
from cse_methods.precision import Arithmetic
from cse_methods.training.tokenized_corpus import TokenizedCorpus

Layers = tuple[Encoder] | tuple[Encoder, nn.Module]
"""An encoder, followed by the head if it is used."""
RowTemplate = Callable[[Sequence[int]], list[int]]
"""Builds a row of model input from the word pieces of a sentence; a `Template` is one."""


@dataclass(frozen=True)
class Batch:
    sentences: list[str]
    rows: NDArray[np.int64]
    """Their indices in the corpus, shape (B,), to look up data of a sentence."""
    columns: tuple[list[str], ...] = ()
    """For a corpus with columns: all of them; the first is `sentences`."""
    step: int = 1
    """The optimiser step of the batch, from 1 to `total_steps`, for schedules."""
    total_steps: int = 1


@dataclass(frozen=True)
class Tokens:
    """The token vectors of a batch, special tokens included."""

    vectors: Tensor
    """Shape (B, L, D), float32; undefined at padding."""
    mask: Tensor
    """1 for word pieces, 0 for padding, shape (B, L)."""
    pooled: Tensor
    """The pooler's result, shape (B, D), before further layers and the head."""


class EncodingOptions(TypedDict, total=False):
    """What `Student.encode` takes beside contents and templates."""

    head: bool
    encoder: Encoder | None
    edits: Edits


class StudentProtocol(Protocol):
    """The interface of a student for objectives; `Student` documents its members."""

    @property
    def encoder(self) -> Encoder: ...

    @property
    def head(self) -> nn.Module: ...

    def pieces(self, sentences: Sequence[str], template: Template) -> list[list[int]]: ...

    def pieces_of(
        self, batch: Batch, template: Template, *, encoder: Encoder | None = None
    ) -> list[list[int]]: ...

    def pieces_at(
        self, rows: NDArray[np.int64], texts: Corpus, template: Template, *, whole: bool = False
    ) -> list[list[int]]: ...

    def encode(
        self, contents: Sequence[list[int]], *templates: RowTemplate, **how: Unpack[EncodingOptions]
    ) -> tuple[Tensor, ...]: ...

    def encode_tokens(
        self,
        contents: Sequence[list[int]],
        template: RowTemplate,
        *,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> "Tokens": ...


class Student(nn.Module):
    """An encoder and the head that follows it in training.

    Args:
        encoder: gives one vector per sentence.
        head: follows the pooler in training; `nn.Identity()` for none.
        max_length: sentences are truncated to this many word pieces, special ones included.
        chunks: a batch is encoded in this many chunks, each encoded again in the backward
            pass, which saves memory while all sentences of the batch remain negatives.
        arithmetic: precision of the forward pass; embeddings and losses are always float32.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: nn.Module,
        *,
        max_length: int,
        chunks: int = 1,
        arithmetic: Arithmetic = "fp32",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.max_length = max_length
        self.chunks = chunks
        self.arithmetic = arithmetic
        self.tokenized: TokenizedCorpus | None = None
        """The tokenized corpus of the batches, if it is cached on this machine."""

    @classmethod
    def from_config(cls, config: TrainingConfig) -> "Student":
        """Load the backbone of `config`, with a new head if it has one.

        A layer that the backbone's weights have on [CLS] is added by the methods that train it.
        """
        encoder = load_encoder(
            config.backbone,
            pooler=config.pooler,
            first_layer=config.first_layer,
            prompt=config.test_prompt(),
            head=False,
            max_length=config.max_length,
            attention=config.attention,
            dropout=config.dropout,
        )
        refuse_half_precision(encoder.model.config, config.precision, config.backbone)
        head = TrainingHead(encoder.width) if config.head else nn.Identity()
        return cls(
            encoder,
            head,
            max_length=config.max_length,
            chunks=config.gradient_accumulation,
            arithmetic=config.arithmetic,
        )

    def pieces(self, sentences: Sequence[str], template: Template) -> list[list[int]]:
        """Tokenize sentences into word pieces without special ones, truncated to fit a training
        row.
        """
        return self.encoder.pieces(sentences, template, max_length=self.max_length)

    def pieces_of(
        self, batch: Batch, template: Template, *, encoder: Encoder | None = None
    ) -> list[list[int]]:
        """Return the word pieces of a batch, from the tokenized corpus if there is one.

        They are cut by the tokenizer of `encoder` if that is given, else by the student's own.
        """
        tokenized = self.tokenized
        if tokenized is None:
            by = encoder or self.encoder
            return by.pieces(batch.sentences, template, max_length=self.max_length)
        if encoder is not None:
            tokenized = tokenized.tokenize_other(
                tokenized.corpus, encoder, max_length=self.max_length
            )
        return tokenized.rows(batch.rows, template)

    def pieces_at(
        self, rows: NDArray[np.int64], texts: Corpus, template: Template, *, whole: bool = False
    ) -> list[list[int]]:
        """Return the word pieces, at these rows, of `texts` that a method has in addition to the
        corpus.

        Tokenized texts are cached if the corpus is. If `whole`, texts are truncated to the model's
        position limit instead of `max_length`.
        """
        max_length = self.encoder.limit if whole else self.max_length
        if self.tokenized is None:
            chosen = [texts.sentences[row] for row in rows]
            return self.encoder.pieces(chosen, template, max_length=max_length)
        tokenized = self.tokenized.tokenize_other(texts, self.encoder, max_length=max_length)
        return tokenized.rows(rows, template)

    def encode(
        self,
        contents: Sequence[list[int]],
        *templates: RowTemplate,
        head: bool = True,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> tuple[Tensor, ...]:
        """Encode each content in each template.

        Without dropout and edits, equal rows are encoded once. Passes with edits of embeddings or
        layers are not split into chunks.

        Args:
            contents: word pieces of B >= 1 sentences, without special ones.
            templates: each builds the rows of one view.
            head: whether the head follows the pooler.
            encoder: another encoder of the same family, instead of the student's own.
            edits: for all rows; those of the first template come before those of the next.

        Returns:
            A tensor of shape (B, D), float32, for each template.
        """
        rows = [template(content) for template in templates for content in contents]
        encoder = encoder or self.encoder
        layers = (encoder, self.head) if head else (encoder,)
        if encoder.dropout or edits.are_of_rows or edits.positions is not None:
            return self._encode_chunks(layers, rows, edits).chunk(len(templates))
        index_of = {row: number for number, row in enumerate(dict.fromkeys(map(tuple, rows)))}
        vectors = self._encode_chunks(layers, list(map(list, index_of)), edits)
        order = torch.tensor([index_of[tuple(row)] for row in rows])
        return vectors[send_tensor(order, vectors.device)].chunk(len(templates))

    def encode_tokens(
        self,
        contents: Sequence[list[int]],
        template: RowTemplate,
        *,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> Tokens:
        """Compute the token vectors of each content, without splitting into chunks.

        Args are those of `encode`.

        Raises:
            BackboneError: if the pooler reads more than the last layer.
        """
        encoder = encoder or self.encoder
        inputs = encoder.pad([template(content) for content in contents])
        with computing_in(self.arithmetic, self.encoder.device):
            vectors = encoder.token_vectors(inputs, edits)
        return Tokens(vectors, inputs["attention_mask"], encoder.pool_tokens(vectors, inputs))

    def _encode_chunks(self, layers: Layers, rows: list[list[int]], edits: Edits) -> Tensor:
        pad = layers[0].pad
        if self.chunks == 1 or edits.are_of_rows:
            return self._encode_inputs(layers, pad(rows), edits)
        size = -(-len(rows) // self.chunks)
        vectors = []
        for start in range(0, len(rows), size):
            chunk = slice(start, start + size)
            if edits.positions is not None:
                own = replace(edits, positions=edits.positions[chunk])
            else:
                own = edits
            inputs = pad(rows[chunk])
            vectors.append(
                checkpoint(self._encode_inputs, layers, inputs, own, use_reentrant=False)
            )
        return torch.cat(vectors)

    def _encode_inputs(self, layers: Layers, inputs: Mapping[str, Tensor], edits: Edits) -> Tensor:
        encoder, *head = layers
        with computing_in(self.arithmetic, self.encoder.device):
            embeddings: Tensor = encoder(inputs, edits=edits)
            for layer in head:
                embeddings = layer(embeddings)
        return embeddings.float()


class StudentOf:
    """A wrapper with all members of its student; subclasses override how they encode.

    Word pieces are truncated to the student's `max_length`; token vectors are those of whole
    sentences.
    """

    def __init__(self, student: StudentProtocol) -> None:
        self.student = student

    def __getattr__(self, name: str) -> Any:
        return getattr(self.student, name)


def dropout_views(
    student: StudentProtocol, sentences: Sequence[str], *, count: int
) -> tuple[Tensor, ...]:
    """Encode each sentence `count` times; the encodings differ only by dropout.

    Returns:
        `count` tensors of shape (B, D), float32, after the head.
    """
    template = student.encoder.template
    return student.encode(student.pieces(sentences, template), *[template] * count)
