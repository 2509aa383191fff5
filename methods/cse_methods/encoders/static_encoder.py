"""An encoder without a transformer: the mean of the vectors of a sentence's words.

It is saved in the format of sentence-transformers: a folder with the vectors (`emb_layer.weight`)
and the list of words, a Pooling by the mean, and any layers after it.
"""

import bz2
import gzip
import json
import logging
import lzma
import re
import string
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
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
    write_layers,
    write_weights,
)
from cse_methods.encoders.sentence_transformers_format import (
    WORD_EMBEDDINGS,
    Module,
    Pooling,
    read_modules,
    write_format,
    write_json,
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
)
from cse_methods.errors import BackboneError, UnknownModelError
from cse_methods.files.text import read_columns

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

    Members of the names of `Encoder`'s do the same, with words in the place of word pieces.

    Args:
        table: the words and their vectors.
        post_pooling: the layers after the mean, in order.
    """

    def __init__(self, table: WordTable, post_pooling: Sequence[SavedLayer] = ()) -> None:
        super().__init__()
        self.table, self.limit = table, table.limit
        self.reading_key: Hashable = table  # encoders with equal keys give equal rows
        self._vocabulary = {word: row for row, word in enumerate(table.words)}
        self.register_buffer("vectors", table.vectors)
        self.tail = nn.ModuleList(post_pooling)

    @property
    def post_pooling(self) -> list[SavedLayer]:
        return [layer for layer in self.tail if isinstance(layer, SavedLayer)]

    @property
    def width(self) -> int:
        return last_width(self.post_pooling) or self.table.vectors.shape[1]

    @property
    def device(self) -> torch.device:
        return self.get_buffer("vectors").device

    def with_post_pooling(self, *layers: SavedLayer) -> "StaticEncoder":
        """Return an encoder that shares this one's vectors, with further layers at the end."""
        return StaticEncoder(self.table, [*self.post_pooling, *layers]).to(self.device)

    def rows(self, sentences: Sequence[str], *, max_length: int | None = None) -> list[list[int]]:
        """Return the table rows of each sentence's known words, at most `max_length` of them."""
        most = min(max_length or self.limit, self.limit)
        texts = (text.lower() if self.table.lower_case else text for text in sentences)
        stop_words = self.table.stop_words
        return [find_words(text, self._vocabulary, stop_words=stop_words)[:most] for text in texts]

    def forward(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Average the words of each sentence, given as table rows: shape (B, D), float32."""
        embeddings = average_words(self.get_buffer("vectors"), rows)
        for layer in self.post_pooling:
            embeddings = layer(embeddings)
        return embeddings

    def batches(self, rows: Sequence[list[int]]) -> Iterator[tuple[list[int], Tensor]]:
        for start in range(0, len(rows), SENTENCES_AT_ONCE):
            batch = rows[start : start + SENTENCES_AT_ONCE]
            with torch.no_grad():
                yield list(range(start, start + len(batch))), self(batch).cpu()

    def encode_rows(self, rows: Sequence[list[int]]) -> Tensor:
        return torch.cat([torch.empty(0, self.width), *(batch for _, batch in self.batches(rows))])

    def encode(self, sentences: Sequence[str], *, max_length: int | None = None) -> Tensor:
        return self.encode_rows(self.rows(sentences, max_length=max_length))

    def save(self, folder: Path) -> None:
        """Write a folder that `load_sentence_encoder` and sentence-transformers can read."""
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


def read_word_table(place: Path) -> WordTable:
    """Read words and vectors from a file or folder for which `static_files.is_static` is true.

    If it has no stop words of its own, `english_stop_words` are used.

    UnknownModelError if it splits sentences by a rule that is not supported here. BackboneError if
    it cannot be read.
    """
    if is_glove_text(place):
        return WordTable(*read_glove_text(place), english_stop_words())
    if is_packaged(place):
        words = [word for (word,) in read_columns(place / PACKAGED_WORDS, "index")]
        vectors = torch.from_numpy(np.load(place / PACKAGED_VECTORS).astype(np.float32))
        table = WordTable(words, vectors, english_stop_words())
    else:
        place /= read_modules(place)[0].path
        try:
            table = _read_words(place)
        except _DAMAGED as problem:
            raise BackboneError(f"{place} is not a table of word vectors: {problem}") from problem
    if table.vectors.ndim != 2 or len(table.words) != len(table.vectors):
        raise BackboneError(
            f"{place} has {len(table.words)} words and vectors of shape "
            f"{tuple(table.vectors.shape)}; expected one vector a word"
        )
    return table


def _read_words(folder: Path) -> WordTable:
    settings = json.loads((folder / WORD_SETTINGS).read_text("utf-8"))
    rule = str(settings["tokenizer_class"])
    if not (rule.startswith("sentence_transformers.") and rule.endswith(".WhitespaceTokenizer")):
        raise UnknownModelError(
            f"{folder} finds its words by {rule}; read here is the WhitespaceTokenizer of "
            "sentence-transformers"
        )
    listed = json.loads((folder / WORD_LIST).read_text("utf-8"))
    safe, pickled = (folder / name for name in WORD_WEIGHTS)
    tensors = load_file(safe) if safe.is_file() else read_pickled(pickled)
    return WordTable(
        list(listed["vocab"]),
        tensors[_VECTORS].float(),
        frozenset(listed["stop_words"]),
        bool(listed.get("do_lower_case")),
        int(settings.get("max_seq_length") or LIMIT),
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


_LINES_FOR_WIDTH = 1000
"""The first lines of a text file, most of which show how many numbers a word has."""
_OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_log = logging.getLogger(__name__)


def find_words(
    sentence: str, vocabulary: Mapping[str, int], *, stop_words: Collection[str] = frozenset()
) -> list[int]:
    """Find the rows of a sentence's known words in a table, in order, with repeats.

    A sentence is split at white space. Three forms of each word are tried in order: unchanged,
    without surrounding punctuation, and then in lower case. If a form is a stop word, the word is
    dropped; the first form in the vocabulary is used; a word without a known form is skipped.

    Source:
        The rule of sentence-transformers' `WhitespaceTokenizer`.
    """
    rows = []
    for word in sentence.split():
        stripped = word.strip(string.punctuation)
        for form in (word, stripped, stripped.lower()):
            if form in stop_words:
                break
            if form and form in vocabulary:
                rows.append(vocabulary[form])
                break
    return rows


def average_words(table: Tensor, sentences: Sequence[Sequence[int]]) -> Tensor:
    """Average the vectors of each sentence's words; the zero vector if it has no known word.

    Args:
        table: the vectors of V words, shape (V, D).
        sentences: for each of N sentences, the rows of its words (`find_words`).

    Returns:
        Shape (N, D), with the table's dtype.

    Source:
        SentEval's bag-of-words example.
    """
    counts = torch.tensor([len(rows) for rows in sentences], device=table.device).long()
    places = torch.repeat_interleave(torch.arange(len(sentences), device=table.device), counts)
    words = torch.tensor([row for rows in sentences for row in rows], device=table.device).long()
    sums = table.new_zeros(len(sentences), table.shape[1]).index_add(0, places, table[words])
    return sums / counts.clamp(min=1).unsqueeze(1)


def read_glove_text(file: Path) -> tuple[list[str], Tensor]:
    """Read words and vectors from a text file: a word, then D numbers per line.

    The first line of word2vec and fastText, the numbers of words and of dimensions D, is skipped,
    as are a byte order mark and blanks at the ends of lines; fields are divided by blanks or tabs.
    Words may contain spaces, as in GloVe 840B: the last D fields are the vector, where D is, if no
    first line says it, the number of fields in most of the first lines minus one. Of a word with
    several lines, as in GloVe 840B, the first one counts, which is logged. The file may be
    compressed (`.gz`, `.bz2`, `.xz`).

    Returns:
        V words, and their vectors, shape (V, D), float32.

    BackboneError if the file is not in this format; names the file and line.
    """
    vectors = dict[str, np.ndarray]()
    twice = list[str]()
    for word, vector in _read_lines(file):
        if vectors.setdefault(word, vector) is not vector:
            twice.append(word)
    if not vectors:
        raise BackboneError(f"{file} is empty; expected a word and its vector in each line")
    if twice:
        _log.warning(
            "%s has words more than once (%d, such as %r); the first line of each counts",
            file, len(set(twice)), twice[0],
        )  # fmt: skip
    return list(vectors), torch.from_numpy(np.stack(list(vectors.values())))


def _read_lines(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the word and the vector of each line after a head."""
    read = _OPENERS.get(file.suffix, open)
    try:
        # Universal newlines would split lines at characters in some of GloVe's words.
        with read(file, "rt", encoding="utf-8-sig", newline="\n") as stream:
            lines = (re.split("[ \t]+", line.rstrip(" \t\r\n")) for line in stream)
            start = list(islice(lines, _LINES_FOR_WIDTH))
            head = bool(start) and len(start[0]) == 2 and all(map(str.isdecimal, start[0]))
            counts = Counter(len(fields) - 1 for fields in start[head:])
            width = counts.most_common(1)[0][0] if counts else 0
            if counts and head and int(start[0][1]) != width:
                raise BackboneError(
                    f"{file}, line 1: {start[0][1]} numbers a word, and most lines have {width}"
                )
            for number, fields in enumerate(chain(start[head:], lines), 1 + head):
                try:
                    vector = np.array(fields[-width:], dtype=np.float32)
                    sound = 1 < width < len(fields) and np.isfinite(vector).all()
                except ValueError:  # a word in the place of a number
                    sound = False
                if not sound:
                    raise BackboneError(
                        f"{file}, line {number}: {' '.join(fields)[:60]!r}; expected a word and "
                        f"{max(width, 2)} finite numbers"
                    )
                yield " ".join(fields[:-width]), vector
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError, zlib.error) as problem:
        raise BackboneError(f"{file} cannot be read as word vectors: {problem}") from problem
