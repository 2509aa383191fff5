"""Static word vectors of GloVe, word2vec and fastText, which sentence-transformers averages.

A sentence's vector is the mean of the vectors of its known words, zeros if it has none. Words are
found by the library's `WhitespaceTokenizer`, which drops its English stop words.
"""

import bz2
import gzip
import logging
import lzma
import re
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cse_methods.encoders.static_files import PACKAGED_VECTORS, PACKAGED_WORDS, is_glove_text
from cse_methods.errors import BackboneError, DataError
from cse_methods.files.text import read_columns

_LINES_FOR_WIDTH = 1000
"""The first lines of a text file, most of which show how many numbers a word has."""
_OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_log = logging.getLogger(__name__)


def load_word_vectors(path: Path) -> Any:
    """Load a file or folder for which `is_static` is true as a SentenceTransformer, on the CPU.

    BackboneError if it cannot be read.
    """
    words, vectors = read_glove_text(path) if is_glove_text(path) else _read_packaged_table(path)
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, WordEmbeddings
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    table = WordEmbeddings(WhitespaceTokenizer(words), vectors)
    return SentenceTransformer(modules=[table, Pooling(vectors.shape[1], "mean")], device="cpu")


def _read_packaged_table(path: Path) -> tuple[list[str], Tensor]:
    try:
        words = [word for (word,) in read_columns(path / PACKAGED_WORDS, "index")]
        vectors = torch.from_numpy(np.load(path / PACKAGED_VECTORS).astype(np.float32))
    except (OSError, ValueError, DataError) as problem:
        raise BackboneError(f"{path} is not a table of word vectors: {problem}") from problem
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise BackboneError(
            f"{path} has {len(words)} words and vectors of shape {tuple(vectors.shape)}; expected "
            "one vector a word"
        )
    return words, vectors


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


def check_first_lines(file: Path) -> None:
    """Raise BackboneError if the first lines are not in the format of `read_glove_text`."""
    deque(islice(_read_lines(file), _LINES_FOR_WIDTH), maxlen=0)


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
