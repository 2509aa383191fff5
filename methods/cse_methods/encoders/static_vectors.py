"""Static word vectors: read a table from a file, look up a sentence's words, and average them."""

import bz2
import gzip
import logging
import lzma
import string
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cse_methods.errors import BackboneError

_OPENERS: Mapping[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_log = logging.getLogger(__name__)


def find_words(
    sentence: str, vocabulary: Mapping[str, int], *, stop_words: Collection[str] = frozenset()
) -> list[int]:
    """Find the rows of a sentence's known words in a table, in order, with repeats.

    A sentence is split at white space. Three forms of each word are tried in order: unchanged,
    without surrounding punctuation, and then in lower case. If a form is a stop word, the word is
    dropped; the first form in the vocabulary is used; a word without a known form is skipped.

    Args:
        sentence: any text.
        vocabulary: the row of each word.
        stop_words: words to ignore.

    Source:
        The rule of sentence-transformers' `WhitespaceTokenizer`.
    """
    rows = (_find_word(word, vocabulary, stop_words) for word in sentence.split())
    return [row for row in rows if row is not None]


def _find_word(word: str, vocabulary: Mapping[str, int], stop_words: Collection[str]) -> int | None:
    stripped = word.strip(string.punctuation)
    for form in (word, stripped, stripped.lower()):
        if form in stop_words:
            return None
        if form and form in vocabulary:
            return vocabulary[form]
    return None


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

    The first line of word2vec and fastText, the numbers of words and of dimensions, is skipped, as
    are blanks at the ends of lines. Words may contain spaces, as in GloVe 840B: the last D fields
    are the vector, where D is the number of fields in the first word's line minus one. Of a word
    with several lines, as in GloVe 840B, the first one counts, which is logged. The file may be
    compressed (`.gz`, `.bz2`, `.xz`).

    Returns:
        V words, and their vectors, shape (V, D), float32.

    Raises:
        BackboneError: if the file is not in this format; names the file and line.
    """
    vectors = dict[str, np.ndarray]()
    twice = list[str]()
    for number, word, vector in _read_lines(file):
        first = next(iter(vectors.values()), vector)
        if len(vector) != len(first):
            raise BackboneError(
                f"{file}, line {number}: {len(vector)} numbers, and the first word has "
                f"{len(first)}; expected a word and its vector"
            )
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


def _read_lines(file: Path) -> Iterator[tuple[int, str, np.ndarray]]:
    """Yield the number, the word and the vector of each line after a head."""
    width: int | None = None
    read = _OPENERS.get(file.suffix, open)
    try:
        # Universal newlines would split lines at characters in some of GloVe's words.
        with read(file, "rt", encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                fields = line.rstrip(" \r\n").split(" ")
                if number == 1 and len(fields) == 2 and all(map(str.isdecimal, fields)):
                    continue
                width = width or len(fields) - 1
                first = max(1, len(fields) - width)
                try:
                    vector = np.array(fields[first:], dtype=np.float32)
                except ValueError as problem:
                    raise BackboneError(
                        f"{file}, line {number}: {problem}; expected a word and {width} numbers"
                    ) from problem
                if width < 2 or not np.isfinite(vector).all():
                    raise BackboneError(
                        f"{file}, line {number}: expected a word and finite numbers, at least two"
                    )
                yield number, " ".join(fields[:first]), vector
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError, zlib.error) as problem:
        raise BackboneError(f"{file} cannot be read as word vectors: {problem}") from problem
