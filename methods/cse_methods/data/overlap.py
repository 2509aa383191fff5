"""Finds sentences and pairs that two sets share, ignoring case, punctuation and tokenisation.

Copies of one data set differ in all three: SentEval's are lower-cased and split by Moses into "do
n't", where others have "Don't". So two sentences count as the same if their letters and digits are
the same, and two pairs if their sentences are the same, in either order.
"""

import re
import string
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.data.transfer_sets import load_transfer_set
from cse_methods.errors import DataError
from cse_methods.files.named import kind_of_file
from cse_methods.files.tables import read_table
from cse_methods.files.text import read_lines
from cse_methods.settings import Settings

_NEITHER_LETTER_NOR_DIGIT = re.compile(r"[\W_]+")
_ASCII_LOWERED = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_ASCII_DROPPED = bytes(code for code in range(128) if not chr(code).isalnum())

PairKey = tuple[str, str]
"""The keys of two sentences, sorted."""


def sentence_key(sentence: str) -> str:
    """Return the letters and digits of a sentence, without case; empty if it has none."""
    if sentence.isascii():  # most sentences are, and this is seven times as fast
        return sentence.encode().translate(_ASCII_LOWERED, _ASCII_DROPPED).decode()
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return _NEITHER_LETTER_NOR_DIGIT.sub("", folded)


def sentence_keys(sentences: Iterable[str]) -> set[str]:
    """Return the keys of these sentences, except empty ones."""
    return {key for sentence in sentences if (key := sentence_key(sentence))}


def pair_key(first: str, second: str) -> PairKey:
    """Return the keys of two sentences, independent of their order."""
    one, other = sorted((sentence_key(first), sentence_key(second)))
    return one, other


class TrainingData(Settings):
    """The data that an encoder was trained on and selected by, as its sweep names it."""

    dev: DevSelection = Field(description="the dev sets in use, with the files of own ones")
    chosen_on: tuple[str, ...] = Field(
        description="names of the dev sets that chose its checkpoint or its configuration"
    )
    corpora: tuple[CorpusSpec, ...] = Field(default=(), description="the training corpora")
    backbone: str | None = Field(default=None, description="the encoder that training began from")
    teachers: tuple[str, ...] = Field(
        default=(), description="frozen encoders that it learned from"
    )
    data: str | None = Field(default=None, description="where dev sets and corpora are read from")


def choosing_pairs(training: TrainingData) -> set[PairKey]:
    """Return the keys of the pairs of the dev sets that selected an encoder.

    For `transfer_dev` these are the pairs of MRPC; the other transfer sets hold single sentences.

    Raises:
        DataError: if a dev set cannot be read, or has changed.
    """
    keys = set[PairKey]()
    for name in training.chosen_on:
        if name == "transfer_dev":
            mrpc = load_transfer_set("mrpc", training.data).train
            first, second = mrpc.first, mrpc.second or ()
        else:
            pairs = load_dev_pairs(training.dev, name, training.data)
            first, second = pairs.first, pairs.second
        keys.update(map(pair_key, first, second))
    return keys


class FileTexts(NamedTuple):
    """The texts of a file: all sentences, and the pairs if it has at least two columns of
    sentences.
    """

    sentences: list[str]
    pairs: list[tuple[str, str]]

    @property
    def keys(self) -> dict[str, Sequence[Hashable]]:
        """The keys of the `sentences` and of the `pairs`, duplicates included."""
        sentences = [key for sentence in self.sentences if (key := sentence_key(sentence))]
        return {"sentences": sentences, "pairs": [pair_key(*pair) for pair in self.pairs]}


def read_texts(path: Path) -> FileTexts:
    """Read the sentences of a text or a table; columns of other content are ignored.

    A text without tabs has one sentence a line. In a table, and in a text with tabs, a column holds
    sentences if most of its cells have several words; a first row without such a cell is a header.

    Raises:
        DataError: if the file cannot be read, or has no sentence.
    """
    rows = _read_rows(path)
    width = min(map(len, rows), default=0)
    several = [sum(" " in str(row[place]).strip() for row in rows) for place in range(width)]
    columns = [place for place in range(width) if 2 * several[place] > len(rows)]
    if width == 1:
        columns = [0]
    texts = [[str(row[place] or "") for place in columns] for row in rows]
    if texts and len(columns) > 1 and not any(" " in text.strip() for text in texts[0]):
        texts = texts[1:]
    if not any(text.strip() for row in texts for text in row):
        raise DataError(
            f"{path}: no sentence; expected one a line, or a table with columns of several words"
        )
    pairs = [(row[0], row[1]) for row in texts] if len(columns) > 1 else []
    return FileTexts([text for row in texts for text in row], pairs)


def _read_rows(path: Path) -> Sequence[Sequence[Any]]:
    """Read the cells of each row; SentEval's tables are separated by tabs whatever their file
    names.
    """
    if kind_of_file(path.name) in (".jsonl", ".parquet"):
        return [row.cells for row in read_table(path).rows]
    lines = [line for line in read_lines(path) if line.strip()]
    if kind_of_file(path.name) == ".csv" and "\t" not in "".join(lines[:1]):
        return [row.cells for row in read_table(path).rows]
    return [line.split("\t") for line in lines]


def count_shared(keys: Iterable[Hashable], others: Iterable[Hashable]) -> int:
    """Count the keys, duplicates included, that are also among the others."""
    known = set(others)
    return sum(key in known for key in keys)
