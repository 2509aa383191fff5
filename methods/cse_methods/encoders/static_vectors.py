"""Static vectors of words: a table from a file, the words of a sentence in it, and their mean."""

import string
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cse_methods.errors import BackboneError


def find_words(
    sentence: str, vocabulary: Mapping[str, int], *, stop_words: Collection[str] = frozenset()
) -> list[int]:
    """The rows of the words of a sentence that are known, in order, repeats counted.

    A sentence is split at white space. Of each word three forms are tried: as it is, without the
    punctuation around it, and that in lower case. The first that is a stop word drops the word,
    the first that is in the vocabulary is taken; a word of which no form is known is passed over.

    Args:
        sentence: any text.
        vocabulary: the row of each word.
        stop_words: words that do not count.

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
    """The mean of the vectors of each sentence's words; a zero vector where there is no word.

    Args:
        table: the vectors of V words, shape (V, D).
        sentences: for each of N sentences the rows of its words, as `find_words` gives them.

    Returns:
        Shape (N, D), of the table's type.

    Source:
        SentEval's bag-of-words example.
    """
    counts = torch.tensor([len(rows) for rows in sentences], device=table.device).long()
    places = torch.repeat_interleave(torch.arange(len(sentences), device=table.device), counts)
    words = torch.tensor([row for rows in sentences for row in rows], device=table.device).long()
    sums = table.new_zeros(len(sentences), table.shape[1]).index_add(0, places, table[words])
    return sums / counts.clamp(min=1).unsqueeze(1)


def read_glove_text(file: Path) -> tuple[list[str], Tensor]:
    """The words and vectors of a file in GloVe's text format: a word, then D numbers a line.

    Words may hold spaces, as some of GloVe 840B do: the last D fields are the vector, and D is
    one less than the fields of the first line.

    Returns:
        V words, and their vectors, shape (V, D), float32.

    Raises:
        BackboneError: names the file and line where it is none.
    """
    words, vectors = list[str](), list[np.ndarray]()
    for number, (word, vector) in enumerate(_read_lines(file), 1):
        if vectors and len(vector) != len(vectors[0]):
            raise BackboneError(
                f"{file}, line {number}: {len(vector)} numbers, and the first line has "
                f"{len(vectors[0])}; expected a word and its vector"
            )
        words.append(word)
        vectors.append(vector)
    if not words:
        raise BackboneError(f"{file} is empty; expected a word and its vector in each line")
    if twice := len(words) - len(set(words)):
        raise BackboneError(f"{file} has {twice} words more than once; expected each word once")
    return words, torch.from_numpy(np.stack(vectors))


def _read_lines(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Each line's word and vector."""
    width: int | None = None
    try:
        # Not universal newlines: some words of GloVe hold characters that would end a line.
        with file.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                fields = line.rstrip("\r\n").split(" ")
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
                yield " ".join(fields[:first]), vector
    except (OSError, UnicodeDecodeError) as problem:
        raise BackboneError(f"{file} cannot be read as word vectors: {problem}") from problem
