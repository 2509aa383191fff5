"""Models that can be scored: this package's encoders, and what sentence-transformers loads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from cse_methods.encoders.backbones import fetch_backbone, resolve_backbone
from cse_methods.encoders.devices import default_device
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.library_encoder import AT_ONCE, LibraryEncoder, load_library_encoder
from cse_methods.encoders.loading import SentenceEncoder, load_sentence_encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.post_pooling import Dense, Normalize, Truncate
from cse_methods.encoders.reading import lower_cases
from cse_methods.encoders.sentence_transformers_format import PromptKind, read_side_prompts
from cse_methods.encoders.template import SPECIAL_PIECES
from cse_methods.encoders.word_pieces import cut_segments
from cse_methods.errors import EvaluationError, UnknownModelError
from cse_methods.losses.segments import pool_segments


class Model(Protocol):
    """Encodes sentences to vectors."""

    @property
    def width(self) -> int:
        """D, the width of the vectors."""

    @property
    def reading(self) -> Mapping[str, Any]:
        """Everything except the weights that a vector depends on, by name; JSON values."""

    @property
    def prompted(self) -> Mapping[PromptKind, "Model"]:
        """The model with its prompt for queries, and for documents, where the encoder has such."""

    def batches(self, sentences: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield indices into `sentences` and their vectors, shape (B, D), float32, on the CPU."""


class OwnModel:
    """An encoder of this package with a transformer.

    Args:
        encoder: on the device where it is to run.
        max_length: texts are truncated to this many word pieces, special ones included; None is
            the encoder's own limit.
        slicing_length: texts are read in segments of this many word pieces, special ones included,
            and a text's vector is the mean of its segments' weighted by length, as in HiCL. An
            encoder's prompt surrounds every segment and is not counted, so rows are longer by its
            pieces. None reads texts whole.
        prompted: see `Model`.

    Raises:
        EvaluationError: if segments have no room for a word piece, or with the prompt exceed the
            encoder's limit.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        max_length: int | None = None,
        slicing_length: int | None = None,
        prompted: Mapping[PromptKind, Model] | None = None,
    ) -> None:
        if slicing_length is not None and slicing_length <= SPECIAL_PIECES:
            raise EvaluationError(
                f"segments of {slicing_length} word pieces have no room beside {SPECIAL_PIECES} "
                "special ones; give a larger slicing length"
            )
        row = (slicing_length or 0) - SPECIAL_PIECES + len(encoder.template)
        if slicing_length is not None and row > encoder.limit:
            whole = f", {row} with the prompt," if row > slicing_length else ""
            raise EvaluationError(
                f"segments of {slicing_length} word pieces{whole} are longer than the "
                f"{encoder.limit} that the encoder reads; give a smaller slicing length"
            )
        self.encoder, self.slicing_length = encoder, slicing_length
        self.max_length = min(max_length or encoder.limit, encoder.limit)
        self.width, self.prompted = encoder.width, dict(prompted or {})

    @property
    def reading(self) -> Mapping[str, Any]:
        pooling, layers = self.encoder.pooling, self.encoder.post_pooling
        kept = [layer.kept for layer in layers if isinstance(layer, Truncate)]
        own: dict[str, Any] = {
            "pooler": pooling.pooler,
            **({} if pooling.include_prompt else {"include_prompt": False}),
            "dense_layers": sum(isinstance(layer, Dense) for layer in layers),
            "normalized": any(isinstance(layer, Normalize) for layer in layers),
            **({"truncate_dim": min(kept)} if kept else {}),
            "max_length": self.max_length,
            "slicing_length": self.slicing_length,
            "lower_cased": lower_cases(self.encoder.tokenizer),
        }
        others = [
            layer.kind
            for layer in (*self.encoder.token_layers, *layers)
            if not isinstance(layer, (Dense, Normalize, Truncate))
        ]
        if others:
            own["other_layers"] = others
        if pooling.pooler == "avg_first_last":
            own["first_layer"] = pooling.first_layer
        return own | ({"prompt": pooling.prompt} if pooling.prompt else {})

    def batches(self, sentences: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        template = self.encoder.template
        contents = self.encoder.pieces(sentences, template, max_length=self.max_length)
        if self.slicing_length is None:
            for indices, encoded in self.encoder.batches([template(one) for one in contents]):
                yield indices, encoded.cpu()
        else:
            length = self.slicing_length - SPECIAL_PIECES
            cut = [cut_segments(content, length) for content in contents]
            segments = [segment for own in cut for segment in own]
            vectors = self.encoder.encode_rows([template(segment) for segment in segments])
            sequence = torch.tensor([row for row, own in enumerate(cut) for _ in own])
            weights = torch.tensor([len(segment) + SPECIAL_PIECES for segment in segments])
            yield list(range(len(contents))), pool_segments(vectors, sequence, weights)


class ForeignModel:
    """An encoder that sentence-transformers reads.

    Texts are truncated to `max_length` word pieces, or to the encoder's own limit if that is lower;
    `prompted` is as in `Model`.

    Raises:
        EvaluationError: if the encoder truncates no texts and a length is given.
    """

    def __init__(
        self,
        encoder: LibraryEncoder,
        *,
        max_length: int | None = None,
        prompted: Mapping[PromptKind, Model] | None = None,
    ) -> None:
        if max_length is not None and encoder.limit is None:
            raise EvaluationError(
                f"max_length {max_length} has no effect on a model that truncates no texts; "
                "leave it out"
            )
        self.max_length = min(max_length or encoder.limit, encoder.limit) if encoder.limit else None
        self.encoder = encoder
        self.width, self.prompted = encoder.width, dict(prompted or {})

    @property
    def reading(self) -> Mapping[str, Any]:
        """Everything except the weights that a vector depends on: the modules as texts."""
        model = self.encoder.model
        prompts, tokenizer = model.prompts or {}, getattr(model, "tokenizer", None)
        return {
            "library": "sentence-transformers",
            "modules": [" ".join(str(module).split()) for module in model],
            "prompt": self.encoder.prompt or prompts.get(model.default_prompt_name),
            "max_length": self.max_length,
            # None if the model has no tokenizer to try it on.
            "lower_cased": lower_cases(tokenizer) if hasattr(tokenizer, "tokenize") else None,
        }

    def batches(self, sentences: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
        for start in range(0, len(order), AT_ONCE):
            indices = order[start : start + AT_ONCE]
            rows = [sentences[index] for index in indices]
            yield indices, self.encoder.encode_rows(rows, max_length=self.max_length)


def open_model(
    name: str,
    *,
    pooler: Pooler | None = None,
    prompt: str | None = None,
    head: bool | None = None,
    max_length: int | None = None,
    slicing_length: int | None = None,
) -> Model:
    """Open the encoder of that name, on a GPU if there is one.

    Args:
        name: short name, folder or hub id, as for `load_encoder`.
        pooler: as for `load_encoder`.
        prompt: the text before each sentence, queries and documents too; None is the encoder's own,
            and "" is none.
        head: as for `load_encoder`.
        max_length: as for `OwnModel`.
        slicing_length: as for `OwnModel`.

    Raises:
        BackboneError: if neither this package nor sentence-transformers can load it.
        EvaluationError: if a setting does not apply to it.
    """
    encoder: SentenceEncoder
    try:
        encoder = load_sentence_encoder(name, pooler=pooler, prompt=prompt, head=head)
    except UnknownModelError as problem:
        if pooler is not None or head is not None or slicing_length is not None:
            raise EvaluationError(
                f"{problem}; sentence-transformers may load it, but without pooler, head or "
                "slicing length: leave them out"
            ) from problem
        source = resolve_backbone(name)
        encoder = load_library_encoder(source, fetch_backbone(source), {"prompt": prompt})
    encoder.to(default_device())
    folder = fetch_backbone(resolve_backbone(name))
    return model_of(
        encoder,
        max_length=max_length,
        slicing_length=slicing_length,
        prompts=read_side_prompts(folder) if prompt is None else {},
    )


def model_of(
    encoder: SentenceEncoder,
    *,
    max_length: int | None = None,
    slicing_length: int | None = None,
    prompts: Mapping[PromptKind, str] | None = None,
) -> Model:
    """Wrap an encoder of this package to be scored; arguments and errors are as for `OwnModel`.

    `prompts` are the texts before queries and before documents.

    EvaluationError if only a transformer of this package could be read so.
    """
    lengths: Any = {"max_length": max_length, "slicing_length": slicing_length}
    prompted: dict[PromptKind, Model] = {
        side: model_of(encoder.with_prompt(prompt), **lengths)
        for side, prompt in (prompts or {}).items()
    }
    if isinstance(encoder, Encoder):
        return OwnModel(encoder, prompted=prompted, **lengths)
    if slicing_length is not None:
        raise EvaluationError(
            f"slicing_length {slicing_length} has no effect on word vectors and on what else "
            "sentence-transformers reads; leave it out"
        )
    assert isinstance(encoder, LibraryEncoder)  # there are no others
    return ForeignModel(encoder, max_length=max_length, prompted=prompted)
