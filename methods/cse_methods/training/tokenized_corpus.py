"""The word pieces of a corpus, tokenized once per machine and shared by all trials as a file."""

import hashlib
from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.corpus import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.template import Template
from cse_methods.errors import TrainingError
from cse_methods.files.cache import cache_folder, cache_key, written_once

_CHUNK = 8192
"""Sentences tokenized per write."""
_REVISION = 1
"""Increased when word pieces or the file layout change for reasons that the key does not show."""


CorpusPieces = tuple[NDArray[np.int32], NDArray[np.int64]]
"""The word pieces of N sentences without special ones, concatenated, shape (T,), and where each
sentence ends among them, shape (N,); read-only memory maps."""


class TokenizedCorpus:
    """A corpus tokenized by an encoder's tokenizer, for each template that is requested.

    Sentences are truncated so that a row has at most `max_length` word pieces, special ones
    included.
    """

    def __init__(self, encoder: Encoder, corpus: Corpus, *, max_length: int) -> None:
        self.corpus = corpus
        self._encoder, self._max_length = encoder, max_length
        self._known: dict[Template, CorpusPieces] = {}
        self._others: dict[tuple[Hashable, str, int], TokenizedCorpus] = {}

    def rows(self, rows: NDArray[np.int64], template: Template) -> list[list[int]]:
        """Return the same as `Student.pieces` of the sentences at these indices.

        TrainingError if the file of the word pieces cannot be written.
        """
        if template not in self._known:
            self._known[template] = self._read_or_cut_sentences(template)
        pieces, ends = self._known[template]
        starts = np.where(rows == 0, 0, ends[rows - 1])
        return [pieces[a:b].tolist() for a, b in zip(starts, ends[rows], strict=True)]

    def tokenize_other(
        self, texts: Corpus, encoder: Encoder, *, max_length: int
    ) -> "TokenizedCorpus":
        """Tokenize other texts, or the same ones by another encoder's tokenizer; kept for later.

        Such texts are the corpus's negations, and such an encoder is a frozen model.
        """
        key = encoder.reading_key, texts.sha256, max_length
        if key not in self._others:
            self._others[key] = TokenizedCorpus(encoder, texts, max_length=max_length)
        return self._others[key]

    def _read_or_cut_sentences(self, template: Template) -> CorpusPieces:
        tokenizer = self._encoder.tokenizer.backend_tokenizer
        tokenizer.no_truncation()  # an earlier call may have set a truncation
        parts = {
            "revision": _REVISION,
            "tokenizer": hashlib.sha256(tokenizer.to_str().encode()).hexdigest(),
            "corpus": self.corpus.sha256,
            "longest": min(self._max_length, self._encoder.limit) - len(template),
            "prompted": template.prompted,
            "stop": template.stop,
        }
        file = cache_folder("tokenized") / f"{cache_key(parts)}.pieces"
        return written_once(
            file,
            read=_read_pieces,
            write=partial(self._write_pieces, template),
            what="a tokenized corpus",
            error=TrainingError,
        )

    def _write_pieces(self, template: Template, stream: IO[bytes]) -> None:
        lengths = []
        sentences = self.corpus.sentences
        for start in range(0, len(sentences), _CHUNK):
            part = sentences[start : start + _CHUNK]
            contents = self._encoder.pieces(part, template, max_length=self._max_length)
            stream.write(np.fromiter((p for c in contents for p in c), dtype="<i4").tobytes())
            lengths += [len(content) for content in contents]
        stream.write(np.cumsum(lengths, dtype="<i8").tobytes())
        stream.write(np.array([len(lengths)], dtype="<i8").tobytes())


def _read_pieces(file: Path) -> CorpusPieces | None:
    """Read a file from its end: number of sentences, their ends, the pieces; None if invalid."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            stream.seek(size - 8)
            number = int(np.frombuffer(stream.read(8), dtype="<i8")[0])
    except (FileNotFoundError, OSError, IndexError):
        return None
    first = size - 8 * (number + 1)
    if first < 0 or first % 4:
        return None
    ends = np.memmap(file, dtype="<i8", mode="r", offset=first, shape=(number,))
    total = first // 4
    if number == 0 or int(ends[-1]) != total:
        return None
    pieces = np.memmap(file, dtype="<i4", mode="r", shape=(total,)) if total else np.empty(0, "<i4")
    return pieces, ends
