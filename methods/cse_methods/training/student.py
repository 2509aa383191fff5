"""The student: the encoder that is trained, with its head, as objectives use it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cse_methods.contract import Arithmetic, TrainingConfig
from cse_methods.data.corpora import Corpus
from cse_methods.encoders.devices import computing_in, send_tensor
from cse_methods.encoders.edits import UNEDITED, Edits
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.families import refuse_half_precision
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.encoders.template import Template
from cse_methods.training.tokenized_corpus import TokenizedCorpus

Layers = tuple[Encoder] | tuple[Encoder, nn.Module]
"""An encoder, and the head where it follows."""
RowTemplate = Callable[[Sequence[int]], list[int]]
"""Makes the row that the model reads from the word pieces of a sentence; a `Template` is one."""


@dataclass(frozen=True)
class Batch:
    """One batch of training sentences."""

    sentences: list[str]
    rows: NDArray[np.int64]
    """Their places in the corpus, shape (B,), to look up what belongs to a sentence."""
    columns: tuple[list[str], ...] = ()
    """Of a corpus with columns: all of them, of which the first is `sentences`."""
    step: int = 1
    """The optimiser step that it is for, from 1 to `total_steps`; schedules follow from it."""
    total_steps: int = 1


@dataclass(frozen=True)
class Tokens:
    """The vectors of a batch's word pieces, special ones included."""

    vectors: Tensor
    """Shape (B, L, D), float32; what stands at padding means nothing."""
    mask: Tensor
    """1 for word pieces, 0 for padding, shape (B, L)."""
    pooled: Tensor
    """What the pooler makes of them, shape (B, D), before layers after it and the head."""


class StudentProtocol(Protocol):
    """What an objective can ask of a student; `Student` says what each member gives."""

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
        self,
        contents: Sequence[list[int]],
        *templates: RowTemplate,
        head: bool = True,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
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
        encoder: gives one vector a sentence.
        head: follows the pooler in training; `nn.Identity()` for none.
        max_length: sentences are cut here, in word pieces, special ones included.
        chunks: a batch is encoded in this many pieces, and each is encoded again in the backward
            pass, so that memory falls while the negatives stay the whole batch.
        arithmetic: of the forward pass; embeddings, and so the losses, are float32 always.
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
        """The corpus that batches are of, where its word pieces are kept on this machine."""

    @classmethod
    def from_config(cls, config: TrainingConfig) -> "Student":
        """The backbone of `config`, and a fresh head where it asks for one."""
        encoder = load_encoder(
            config.backbone,
            pooler=config.pooler,
            first_layer=config.first_layer,
            prompt=config.test_prompt(),
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
        """Cut sentences to word pieces without special ones, at most what a training row holds."""
        return self.encoder.pieces(sentences, template, max_length=self.max_length)

    def pieces_of(
        self, batch: Batch, template: Template, *, encoder: Encoder | None = None
    ) -> list[list[int]]:
        """Return the word pieces of a batch, from the tokenized corpus if there is one.

        The tokenizer of `encoder` cuts them, where there is another one than the student's own.
        """
        if self.tokenized is None:
            by = encoder or self.encoder
            return by.pieces(batch.sentences, template, max_length=self.max_length)
        tokenized = self.tokenized if encoder is None else self.tokenized.by(encoder)
        return tokenized.rows(batch.rows, template)

    def pieces_at(
        self, rows: NDArray[np.int64], texts: Corpus, template: Template, *, whole: bool = False
    ) -> list[list[int]]:
        """Return the word pieces of `texts`, which a method has beside the corpus, at these rows.

        Tokenized texts are kept where the corpus is. If `whole`, a text is cut where the model's
        positions end and not at what a training row holds.
        """
        max_length = self.encoder.limit if whole else self.max_length
        if self.tokenized is None:
            chosen = [texts.sentences[row] for row in rows]
            return self.encoder.pieces(chosen, template, max_length=max_length)
        return self.tokenized.beside(texts, max_length=max_length).rows(rows, template)

    def encode(
        self,
        contents: Sequence[list[int]],
        *templates: RowTemplate,
        head: bool = True,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> tuple[Tensor, ...]:
        """One encoding of each content in each template.

        Without dropout and edits, rows that are the same are encoded once. A pass whose embeddings
        or layers are edited is not cut into chunks.

        Args:
            contents: B >= 1 sentences' word pieces without special ones.
            templates: each makes the rows of one view.
            head: whether the head follows the pooler.
            encoder: another one of the same family in place of the student's own.
            edits: of all these rows, the contents in the first template before those in the next.

        Returns:
            A tensor of shape (B, D), float32, for each template.
        """
        rows = [template(content) for template in templates for content in contents]
        encoder = encoder or self.encoder
        layers = (encoder, self.head) if head else (encoder,)
        if encoder.dropout or edits.are_of_rows or edits.positions is not None:
            return self._chunked(layers, rows, edits).chunk(len(templates))
        place = {row: number for number, row in enumerate(dict.fromkeys(map(tuple, rows)))}
        vectors = self._chunked(layers, list(map(list, place)), edits)
        order = torch.tensor([place[tuple(row)] for row in rows])
        return vectors[send_tensor(order, vectors.device)].chunk(len(templates))

    def encode_tokens(
        self,
        contents: Sequence[list[int]],
        template: RowTemplate,
        *,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> Tokens:
        """The vectors of the word pieces of each content, which are not cut into chunks.

        Args are those of `encode`.

        Raises:
            BackboneError: if the pooler reads more than the last layer.
        """
        encoder = encoder or self.encoder
        inputs = encoder.pad([template(content) for content in contents])
        with computing_in(self.arithmetic, self.encoder.device):
            vectors = encoder.token_vectors(inputs, edits)
        return Tokens(vectors, inputs["attention_mask"], encoder.pool_tokens(vectors, inputs))

    def _chunked(self, layers: Layers, rows: list[list[int]], edits: Edits) -> Tensor:
        pad = layers[0].pad
        if self.chunks == 1 or edits.are_of_rows:
            return self._encode(layers, pad(rows), edits)
        size = -(-len(rows) // self.chunks)
        parts = [
            (pad(rows[start : start + size]), edits.of_rows(start, start + size))
            for start in range(0, len(rows), size)
        ]
        return torch.cat(
            [checkpoint(self._encode, layers, *part, use_reentrant=False) for part in parts]
        )

    def _encode(self, layers: Layers, inputs: Mapping[str, Tensor], edits: Edits) -> Tensor:
        encoder, *head = layers
        with computing_in(self.arithmetic, self.encoder.device):
            embeddings: Tensor = encoder(inputs, edits=edits)
            for layer in head:
                embeddings = layer(embeddings)
        return embeddings.float()


class StudentOf:
    """Another student, seen through: what a subclass encodes in its own way, it overrides.

    Word pieces are the student's, cut at its `max_length`; vectors of word pieces are those of
    whole sentences.
    """

    def __init__(self, student: StudentProtocol) -> None:
        self.student = student

    @property
    def encoder(self) -> Encoder:
        return self.student.encoder

    @property
    def head(self) -> nn.Module:
        return self.student.head

    def pieces(self, sentences: Sequence[str], template: Template) -> list[list[int]]:
        """The student's."""
        return self.student.pieces(sentences, template)

    def pieces_of(
        self, batch: Batch, template: Template, *, encoder: Encoder | None = None
    ) -> list[list[int]]:
        """The student's."""
        return self.student.pieces_of(batch, template, encoder=encoder)

    def pieces_at(
        self, rows: NDArray[np.int64], texts: Corpus, template: Template, *, whole: bool = False
    ) -> list[list[int]]:
        """The student's."""
        return self.student.pieces_at(rows, texts, template, whole=whole)

    def encode(
        self,
        contents: Sequence[list[int]],
        *templates: RowTemplate,
        head: bool = True,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> tuple[Tensor, ...]:
        """The student's."""
        return self.student.encode(contents, *templates, head=head, encoder=encoder, edits=edits)

    def encode_tokens(
        self,
        contents: Sequence[list[int]],
        template: RowTemplate,
        *,
        encoder: Encoder | None = None,
        edits: Edits = UNEDITED,
    ) -> Tokens:
        """The student's."""
        return self.student.encode_tokens(contents, template, encoder=encoder, edits=edits)


def dropout_views(
    student: StudentProtocol, sentences: Sequence[str], *, count: int
) -> tuple[Tensor, ...]:
    """`count` encodings of each sentence, which differ by dropout alone.

    Returns:
        `count` tensors of shape (B, D), float32, after the head.
    """
    template = student.encoder.template
    return student.encode(student.pieces(sentences, template), *[template] * count)
