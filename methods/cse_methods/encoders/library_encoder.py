"""Encoders that sentence-transformers reads: all that this package's fast path does not.

These are decoders, adapters, saved tables of words, other poolers and further modules. They are
scored and teach; nothing is trained on them. The library takes seconds to import, and is only
imported when such an encoder is loaded.
"""

import json
import math
from collections.abc import Hashable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoConfig

from cse_methods.encoders.backbones import Backbone, adapted_folder, explain_foreign, foreign_pooler
from cse_methods.encoders.families import FAMILIES, first_position, refuse_other_positions
from cse_methods.encoders.post_pooling import Dense
from cse_methods.encoders.reading import (
    ReadingOptions,
    load_model,
    naming_the_backbone,
    open_tokenizer,
    quiet,
    refuse_other_pieces,
    refuse_pieces_without_vector,
)
from cse_methods.encoders.sentence_transformers_format import (
    list_modules,
    read_options,
    read_text_settings,
    transformer_folder,
    write_option,
)
from cse_methods.encoders.static_encoder import check_first_lines, load_word_vectors
from cse_methods.encoders.static_files import is_glove_text, is_static
from cse_methods.errors import BackboneError

AT_ONCE = 32
"""Sentences per batch, the library's default."""


class LibraryEncoder:
    """An encoder of sentence-transformers behind the members of `Encoder` that score and teach.

    Its rows are texts, which the library cuts into word pieces itself.

    Args:
        model: a SentenceTransformer.

    Attributes:
        limit: the most word pieces that are read of a text; None if it truncates none.
        prompt: the text before each sentence; None is the folder's own.
        reading_key: encoders with equal keys have equal rows.
    """

    reading_key: Hashable = "texts"

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.prompt: str | None = None
        limit = model.max_seq_length
        self.limit = None if limit is None or math.isinf(limit) else int(limit)
        config: Any = getattr(model[0], "config", None)
        if self.limit is not None and getattr(config, "model_type", None) in FAMILIES:
            # The library counts the rows before the first position too, and would run out of them.
            stored = config.to_dict()
            self.limit = min(self.limit, stored["max_position_embeddings"] - first_position(stored))
        with quiet():
            self.width = len(model.encode("width", show_progress_bar=False))

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    def to(self, device: torch.device | str) -> "LibraryEncoder":
        self.model.to(device)
        return self

    def rows(self, sentences: Sequence[str]) -> list[str]:
        return list(sentences)

    def encode_rows(self, rows: Sequence[str], *, max_length: int | None = None) -> Tensor:
        """Encode N texts, shape (N, D), float32, on the CPU; `max_length` is as for `Encoder`."""
        if not rows:
            return torch.empty(0, self.width)
        if self.limit is not None:
            self.model.max_seq_length = min(max_length or self.limit, self.limit)
        vectors = self.model.encode(
            list(rows),
            prompt=self.prompt,
            convert_to_tensor=True,
            show_progress_bar=False,
            batch_size=AT_ONCE,
        )
        copied: Tensor = vectors.float().cpu().clone()  # out of the library's inference mode
        return copied

    def encode(self, sentences: Sequence[str], *, max_length: int | None = None) -> Tensor:
        return self.encode_rows(sentences, max_length=max_length)

    def with_prompt(self, prompt: str) -> "LibraryEncoder":
        """Return an encoder that shares this one's weights, with this text before each sentence."""
        prompted = copy(self)
        prompted.prompt = prompt
        return prompted

    def with_post_pooling(self, layer: Dense) -> "LibraryEncoder":
        """Return an encoder that shares this one's weights, with a dense layer at the end."""
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Dense as LibraryDense

        with self.model.truncate_embeddings(None):
            full = len(self.model.encode("width", show_progress_bar=False))
        weight = layer.linear.weight.detach()
        added = LibraryDense(
            full,
            layer.linear.out_features,
            activation_function=layer.activation,
            # What the folder's `truncate_dim` cuts off has no weight.
            init_weight=F.pad(weight, (0, full - weight.shape[1])),
            init_bias=layer.linear.bias.detach(),
        )
        model = SentenceTransformer(
            modules=[*self.model, added],
            device=str(self.device),
            prompts=self.model.prompts,
            default_prompt_name=self.model.default_prompt_name,
        )
        return LibraryEncoder(model)

    def save(self, folder: Path) -> None:
        """Write a folder that sentence-transformers reads."""
        if self.limit is not None:
            self.model.max_seq_length = self.limit
        with quiet():
            self.model.save(str(folder), create_model_card=False)
        if self.model.truncate_dim:  # which the library leaves out
            write_option(folder, "truncate_dim", self.model.truncate_dim)


def check_library_reading(source: Backbone, folder: Path, options: ReadingOptions) -> None:
    """Raise BackboneError for what sentence-transformers would read otherwise than asked or meant.

    A pooler is refused unless it is the folder's; so are a head, and a length above the folder's.
    """
    name, asked, head = source.name, options.get("pooler"), options.get("head")
    if head or (asked is not None and asked != foreign_pooler(folder)):
        own = foreign_pooler(folder)
        remedy = f"set pooler: {own} instead of {asked}" if own else "leave pooler out"
        raise BackboneError(
            f"encoder {name!r} is read by sentence-transformers, which has no other pooler or "
            f"head for it ({explain_foreign(folder)}); {'leave head out' if head else remedy}"
        )
    if is_static(folder):
        if is_glove_text(folder):
            check_first_lines(folder)
        return
    read_options(folder)
    read_text_settings(folder)
    modules = list_modules(folder)
    if modules and not modules[0].kind.endswith("Transformer"):
        return  # config.json holds the settings of another module
    transformer = adapted_folder(folder) or transformer_folder(folder)
    with naming_the_backbone(name, folder):
        file = transformer / "config.json"
        refuse_other_positions(dict(json.loads(file.read_text("utf-8"))), file, name)
        config = AutoConfig.from_pretrained(transformer, trust_remote_code=False)
    tokenizer = open_tokenizer(transformer, name)
    refuse_other_pieces(tokenizer, transformer / "tokenizer.json", name)
    if isinstance(rows := getattr(config, "vocab_size", None), int):
        refuse_pieces_without_vector(tokenizer, rows, name)
    # The library would draw weights that are missing, which every load would draw anew.
    load_model(name, transformer, config=config, device_map="meta")
    length = read_text_settings(folder)[0]
    positions = getattr(config, "max_position_embeddings", None)
    known = [length] if length else [positions, tokenizer.model_max_length]
    limit = min((one for one in known if isinstance(one, int)), default=None)
    _refuse_longer_texts(options.get("max_length"), limit, name)


def _refuse_longer_texts(asked: int | None, limit: int | None, name: str) -> None:
    """Raise BackboneError for a length above what an encoder reads; None is no limit."""
    if asked is not None and limit is not None and asked > limit:
        raise BackboneError(
            f"max_length {asked} is above the {limit} word pieces that encoder {name!r} "
            f"reads, as its folder says; set max_length to {limit} or less"
        )


def load_library_encoder(
    source: Backbone, folder: Path, options: ReadingOptions, **loading: Any
) -> LibraryEncoder:
    """Load an encoder on the CPU as sentence-transformers does.

    Options are those of `load_encoder`; `loading` are further arguments of `SentenceTransformer`.

    Raises:
        BackboneError: if the library cannot load it, or `check_library_reading` does.
    """
    from sentence_transformers import SentenceTransformer

    check_library_reading(source, folder, options)
    try:
        with quiet():
            if is_static(folder):
                model = load_word_vectors(folder)
            else:
                kept = read_options(folder).get("truncate_dim")
                reading: Any = {"local_files_only": True, "truncate_dim": kept}
                model = SentenceTransformer(str(folder), device="cpu", **reading, **loading)
            if (prompt := options.get("prompt")) is not None:
                model.prompts, model.default_prompt_name = {"given": prompt}, "given"
            encoder = LibraryEncoder(model)
    except BackboneError:
        raise
    except Exception as error:  # errors of unpickling and of others' modules have no common base
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise BackboneError(
            f"encoder {source.name!r} is read by sentence-transformers, which says: {reason}"
        ) from error
    _refuse_longer_texts(options.get("max_length"), encoder.limit, source.name)
    if not encoder.encode(["A sentence of some words."]).isfinite().all():
        raise BackboneError(f"encoder {source.name!r}: its vectors hold NaN; take another copy")
    return encoder
