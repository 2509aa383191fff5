"""An encoder without a transformer: the mean of the vectors of a sentence's words.

It is saved in the format of sentence-transformers: a folder with the vectors (`emb_layer.weight`)
and the list of words, a Pooling by the mean, and any layers after it.
"""

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from cse_methods.encoders.saved_layers import (
    SavedLayer,
    last_width,
    read_pickled,
    write_json,
    write_layers,
    write_weights,
)
from cse_methods.encoders.sentence_transformers_format import (
    WORD_EMBEDDINGS,
    Module,
    Pooling,
    write_format,
)
from cse_methods.encoders.static_files import (
    PACKAGED_VECTORS,
    PACKAGED_WORDS,
    WORD_LIST,
    WORD_SETTINGS,
    WORD_WEIGHTS,
    english_stop_words,
    is_glove_text,
    is_packaged,
    words_folder,
)
from cse_methods.encoders.static_vectors import average_words, find_words, read_glove_text
from cse_methods.errors import BackboneError, UnknownModelError
from cse_methods.files.parquet import read_columns

SENTENCES_AT_ONCE = 256
"""Sentences per batch, which bounds the memory of their words' vectors."""
LIMIT = 1_000_000
"""The default number of words that are read of a sentence, as in sentence-transformers."""
_TOKENIZER = "sentence_transformers.models.tokenizer.WhitespaceTokenizer"
_VECTORS = "emb_layer.weight"
_DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, RuntimeError),
    *(SafetensorError, UnpicklingError),
)


@dataclass(frozen=True, eq=False)
class WordTable:
    """The vectors of words, and how words are found in a sentence (`find_words`)."""

    words: list[str]
    """V words."""
    vectors: Tensor
    """Shape (V, D), float32."""
    stop_words: frozenset[str] = frozenset()
    lower_case: bool = False
    """Whether sentences are lower-cased first."""
    limit: int = LIMIT
    """The most words that are read of a sentence."""


class StaticEncoder(nn.Module):
    """The mean of the vectors of a sentence's known words; zeros if none is known.

    Args:
        table: the words and their vectors.
        post_pooling: the layers after the mean, in order.
    """

    def __init__(self, table: WordTable, post_pooling: Sequence[SavedLayer] = ()) -> None:
        super().__init__()
        self.table = table
        self._vocabulary = {word: row for row, word in enumerate(table.words)}
        self.register_buffer("vectors", table.vectors)
        self.tail = nn.ModuleList(post_pooling)

    @property
    def post_pooling(self) -> list[SavedLayer]:
        """The layers after the mean, in order."""
        return [layer for layer in self.tail if isinstance(layer, SavedLayer)]

    @property
    def width(self) -> int:
        """D, the width of the embeddings."""
        return last_width(self.post_pooling) or self.table.vectors.shape[1]

    @property
    def limit(self) -> int:
        """The most words that are read of a sentence."""
        return self.table.limit

    @property
    def device(self) -> torch.device:
        """The device of the vectors."""
        return self.get_buffer("vectors").device

    @property
    def reading_key(self) -> Hashable:
        """What the output of `rows` depends on: this table itself."""
        return self.table

    def with_post_pooling(self, *layers: SavedLayer) -> "StaticEncoder":
        """Return an encoder that shares this one's vectors, with further layers at the end."""
        return StaticEncoder(self.table, [*self.post_pooling, *layers]).to(self.device)

    def rows(self, sentences: Sequence[str], *, max_length: int | None = None) -> list[list[int]]:
        """Return the table rows of each sentence's known words, at most `max_length` of them."""
        most = min(max_length or self.limit, self.limit)
        return [self._find_words(sentence)[:most] for sentence in sentences]

    def forward(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Average the words of each sentence, given as table rows: shape (B, D), float32."""
        embeddings = average_words(self.get_buffer("vectors"), rows)
        for layer in self.post_pooling:
            embeddings = layer(embeddings)
        return embeddings

    def batches(self, rows: Sequence[list[int]]) -> Iterator[tuple[list[int], Tensor]]:
        """Yield indices into `rows` and their vectors, shape (B, D), float32, on the CPU."""
        for start in range(0, len(rows), SENTENCES_AT_ONCE):
            batch = rows[start : start + SENTENCES_AT_ONCE]
            with torch.no_grad():
                yield list(range(start, start + len(batch))), self(batch).cpu()

    def encode_rows(self, rows: Sequence[list[int]]) -> Tensor:
        """Encode N rows: shape (N, D), float32, on the CPU."""
        return torch.cat([torch.empty(0, self.width), *(batch for _, batch in self.batches(rows))])

    def encode(self, sentences: Sequence[str], *, max_length: int | None = None) -> Tensor:
        """Encode N sentences: shape (N, D), float32, on the CPU."""
        return self.encode_rows(self.rows(sentences, max_length=max_length))

    def save(self, folder: Path) -> None:
        """Write a folder that `load_sentence_encoder` and sentence-transformers can read.

        Args:
            folder: created if it does not exist.
        """
        module = Module(WORD_EMBEDDINGS, f"0_{WORD_EMBEDDINGS}")
        (folder / module.path).mkdir(parents=True, exist_ok=True)
        _write_words(folder / module.path, self.table)
        write_format(
            folder,
            Pooling("avg"),
            width=self.table.vectors.shape[1],
            first=module,
            post_pooling=write_layers(folder, self.post_pooling, first=2),
        )

    def _find_words(self, sentence: str) -> list[int]:
        text = sentence.lower() if self.table.lower_case else sentence
        return find_words(text, self._vocabulary, stop_words=self.table.stop_words)


def read_word_table(place: Path) -> WordTable:
    """Read words and vectors from a file or folder for which `static_files.is_static` is true.

    If it has no stop words of its own, `english_stop_words` are used.

    Raises:
        UnknownModelError: if it splits sentences by a rule that is not supported here.
        BackboneError: if it cannot be read.
    """
    if is_glove_text(place):
        return WordTable(*read_glove_text(place), english_stop_words())
    if is_packaged(place):
        return _read_packaged(place)
    folder = words_folder(place)
    try:
        return _read_words(folder)
    except _DAMAGED as problem:
        raise BackboneError(f"{folder} is not a table of word vectors: {problem}") from problem


def _read_packaged(folder: Path) -> WordTable:
    words = [word for (word,) in read_columns(folder / PACKAGED_WORDS, "index")]
    vectors = torch.from_numpy(np.load(folder / PACKAGED_VECTORS).astype(np.float32))
    _check_sizes(folder, words, vectors)
    return WordTable(words, vectors, english_stop_words())


def _read_words(folder: Path) -> WordTable:
    settings = json.loads((folder / WORD_SETTINGS).read_text("utf-8"))
    rule = str(settings["tokenizer_class"])
    if not (rule.startswith("sentence_transformers.") and rule.endswith(".WhitespaceTokenizer")):
        raise UnknownModelError(
            f"{folder} finds its words by {rule}; read here is the WhitespaceTokenizer of "
            "sentence-transformers"
        )
    listed = json.loads((folder / WORD_LIST).read_text("utf-8"))
    words, vectors = list(listed["vocab"]), _read_vectors(folder).float()
    _check_sizes(folder, words, vectors)
    return WordTable(
        words,
        vectors,
        frozenset(listed["stop_words"]),
        bool(listed.get("do_lower_case")),
        int(settings.get("max_seq_length") or LIMIT),
    )


def _read_vectors(folder: Path) -> Tensor:
    safe, pickled = (folder / name for name in WORD_WEIGHTS)
    if safe.is_file():
        return load_file(safe)[_VECTORS]
    return read_pickled(pickled)[_VECTORS]


def _check_sizes(place: Path, words: Sequence[str], vectors: Tensor) -> None:
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise BackboneError(
            f"{place} has {len(words)} words and vectors of shape {tuple(vectors.shape)}; expected "
            "one vector a word"
        )


def _write_words(folder: Path, table: WordTable) -> None:
    settings: dict[str, Any] = {
        "tokenizer_class": _TOKENIZER,
        "update_embeddings": False,
        "max_seq_length": table.limit,
    }
    listed = {
        "vocab": table.words,
        "stop_words": sorted(table.stop_words),
        "do_lower_case": table.lower_case,
    }
    write_json(folder / WORD_SETTINGS, settings)
    (folder / WORD_LIST).write_text(json.dumps(listed) + "\n", encoding="utf-8")
    write_weights(folder, {_VECTORS: table.vectors})
