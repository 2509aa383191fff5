"""Models that can be scored: this package's encoders, and what sentence-transformers loads."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from cse_methods.contract import Pooler
from cse_methods.encoders.backbones import split_revision
from cse_methods.encoders.devices import default_device
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import SentenceEncoder, load_sentence_encoder
from cse_methods.encoders.post_pooling import Dense, Normalize, Truncate
from cse_methods.encoders.reading import lower_cases, quiet
from cse_methods.encoders.saved_layers import SavedLayer
from cse_methods.encoders.static_encoder import StaticEncoder
from cse_methods.encoders.template import SPECIAL_PIECES
from cse_methods.encoders.word_pieces import cut_segments
from cse_methods.errors import BackboneError, EvaluationError, UnknownModelError
from cse_methods.files.named import expand
from cse_methods.losses.segments import pool_segments

FOREIGN_BATCH = 32


class Model(Protocol):
    """Encodes sentences to vectors."""

    @property
    def width(self) -> int:
        """D, the width of the vectors."""

    @property
    def reading(self) -> Mapping[str, Any]:
        """Everything except the weights that a vector depends on, by name; JSON values."""

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

    Raises:
        EvaluationError: if segments have no room for a word piece, or with the prompt exceed the
            encoder's limit.
    """

    def __init__(
        self, encoder: Encoder, *, max_length: int | None = None, slicing_length: int | None = None
    ) -> None:
        if slicing_length is not None and slicing_length <= SPECIAL_PIECES:
            raise EvaluationError(
                f"segments of {slicing_length} word pieces have no room beside {SPECIAL_PIECES} "
                "special ones; give a larger slicing length"
            )
        row = (slicing_length or 0) - SPECIAL_PIECES + len(encoder.template)
        if slicing_length is not None and row > encoder.limit:
            prompted = f", {row} with the prompt," if row > slicing_length else ""
            raise EvaluationError(
                f"segments of {slicing_length} word pieces{prompted} are longer than the "
                f"{encoder.limit} that the encoder reads; give a smaller slicing length"
            )
        self.encoder, self.slicing_length = encoder, slicing_length
        self.max_length = min(max_length or encoder.limit, encoder.limit)
        self.width = encoder.width

    @property
    def reading(self) -> Mapping[str, Any]:
        pooling, layers = self.encoder.pooling, self.encoder.post_pooling
        own: dict[str, Any] = {
            "pooler": pooling.pooler,
            **({} if pooling.include_prompt else {"include_prompt": False}),
            **_describe_layers(layers),
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
            for places, encoded in self.encoder.batches([template(one) for one in contents]):
                yield places, encoded.cpu()
        else:
            length = self.slicing_length - SPECIAL_PIECES
            cut = [cut_segments(content, length) for content in contents]
            segments = [segment for own in cut for segment in own]
            vectors = self.encoder.encode_rows([template(segment) for segment in segments])
            sequence = torch.tensor([row for row, own in enumerate(cut) for _ in own])
            weights = torch.tensor([len(segment) + SPECIAL_PIECES for segment in segments])
            yield list(range(len(contents))), pool_segments(vectors, sequence, weights)


class StaticModel:
    """An encoder of static word vectors.

    Args:
        encoder: on the device where it is to run.
        max_length: texts are truncated to this many known words; None is the encoder's own limit.
    """

    def __init__(self, encoder: StaticEncoder, *, max_length: int | None = None) -> None:
        self.encoder = encoder
        self.max_length = min(max_length or encoder.limit, encoder.limit)
        self.width = encoder.width

    @property
    def reading(self) -> Mapping[str, Any]:
        table = self.encoder.table
        return {
            "pooler": "avg",
            **_describe_layers(self.encoder.post_pooling),
            "max_length": self.max_length,
            "stop_words": len(table.stop_words),
            "lower_cased": table.lower_case,
        }

    def batches(self, sentences: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        yield from self.encoder.batches(self.encoder.rows(sentences, max_length=self.max_length))


class ForeignModel:
    """A model that sentence-transformers loads and this package does not.

    Texts are truncated to `max_length` word pieces, or to the model's own limit if that is lower.

    Raises:
        EvaluationError: if the model truncates no texts and a length is given.
    """

    def __init__(self, model: Any, *, max_length: int | None = None) -> None:
        limit = model.max_seq_length
        self.max_length = None if limit is None or math.isinf(limit) else int(limit)
        if max_length is not None:
            if self.max_length is None:
                raise EvaluationError(
                    f"max_length {max_length} has no effect on a model that truncates no texts; "
                    "leave it out"
                )
            self.max_length = model.max_seq_length = min(max_length, self.max_length)
        self.model = model
        self.width = len(model.encode("width", show_progress_bar=False))

    @property
    def reading(self) -> Mapping[str, Any]:
        """Everything except the weights that a vector depends on: the modules as texts."""
        prompts, tokenizer = self.model.prompts or {}, getattr(self.model, "tokenizer", None)
        return {
            "library": "sentence-transformers",
            "modules": [" ".join(str(module).split()) for module in self.model],
            "prompt": prompts.get(self.model.default_prompt_name),
            "max_length": self.max_length,
            # None if the model has no tokenizer to try it on.
            "lower_cased": lower_cases(tokenizer) if hasattr(tokenizer, "tokenize") else None,
        }

    def batches(self, sentences: Sequence[str]) -> Iterator[tuple[list[int], Tensor]]:
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
        for start in range(0, len(order), FOREIGN_BATCH):
            places = order[start : start + FOREIGN_BATCH]
            found = self.model.encode(
                [sentences[place] for place in places],
                convert_to_tensor=True,
                show_progress_bar=False,
                batch_size=FOREIGN_BATCH,
            )
            yield places, found.float().cpu()


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
        prompt: the text before each sentence; None is the encoder's own, and "" is none.
        head: as for `load_encoder`.
        max_length: as for `OwnModel`.
        slicing_length: as for `OwnModel`.

    Raises:
        BackboneError: if neither this package nor sentence-transformers can load it.
        EvaluationError: if a setting does not apply to it.
    """
    try:
        encoder = load_sentence_encoder(name, pooler=pooler, prompt=prompt, head=head)
    except UnknownModelError as problem:
        if pooler is not None or head is not None or slicing_length is not None:
            raise EvaluationError(
                f"{problem}; sentence-transformers may load it, but without pooler, head or "
                "slicing length: leave them out"
            ) from problem
        foreign = _load_foreign(name, problem)
        if prompt is not None:
            foreign.prompts, foreign.default_prompt_name = {"given": prompt}, "given"
        return ForeignModel(foreign, max_length=max_length)
    encoder.to(default_device())
    return model_of(encoder, max_length=max_length, slicing_length=slicing_length)


def model_of(
    encoder: SentenceEncoder, *, max_length: int | None = None, slicing_length: int | None = None
) -> Model:
    """Wrap an encoder of this package to be scored; arguments and errors are as for `OwnModel`.

    EvaluationError if static word vectors are to be read in segments.
    """
    if isinstance(encoder, Encoder):
        return OwnModel(encoder, max_length=max_length, slicing_length=slicing_length)
    assert isinstance(encoder, StaticEncoder)  # there are no others
    if slicing_length is not None:
        raise EvaluationError(
            f"slicing_length {slicing_length} has no effect on static word vectors, which have "
            "no word pieces; leave it out"
        )
    return StaticModel(encoder, max_length=max_length)


def _describe_layers(layers: Sequence[SavedLayer]) -> dict[str, Any]:
    kept = [layer.kept for layer in layers if isinstance(layer, Truncate)]
    return {
        "dense_layers": sum(isinstance(layer, Dense) for layer in layers),
        "normalized": any(isinstance(layer, Normalize) for layer in layers),
        **({"truncate_dim": min(kept)} if kept else {}),
    }


def _load_foreign(name: str, problem: UnknownModelError) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise BackboneError(
            f"{problem}; sentence-transformers may load it, but cannot be imported ({error}); "
            "install it"
        ) from problem
    try:
        path = Path(expand(name))
        model, revision = (str(path), None) if path.exists() else split_revision(name)
        with quiet():
            return SentenceTransformer(model, revision=revision)
    except Exception as error:  # errors of unpickling and of others' modules have no common base
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise BackboneError(f"{problem}, and sentence-transformers says: {reason}") from error
