"""Finds sentences and pairs that two sets share, ignoring case, punctuation and tokenisation.

Copies of one data set differ in all three: SentEval's are lower-cased and split by Moses into "do
n't", where others have "Don't". So two sentences count as the same if their letters and digits are
the same, and two pairs if their sentences are the same, in either order.
"""

import re
import string
import unicodedata
from collections.abc import Hashable, Sequence
from pathlib import Path, PurePosixPath

from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.data.manifest import manifest
from cse_methods.data.transfer_sets import load_transfer_set
from cse_methods.errors import DataError
from cse_methods.files.cells import parse_number
from cse_methods.files.named import TEXTS, files_below, kind_of_file
from cse_methods.files.table_settings import TableSettings
from cse_methods.files.tables import FileRow, read_table
from cse_methods.files.text import read_lines
from cse_methods.settings import Settings, setting

_NEITHER_LETTER_NOR_DIGIT = re.compile(r"[\W_]+")
_ASCII_LOWERED = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_ASCII_DROPPED = bytes(code for code in range(128) if not chr(code).isalnum())

_SENTEVAL_NAMES = {PurePosixPath(path).name for path in manifest()}
"""SentEval's files, which have tabs whatever their names end in."""

PairKey = tuple[str, str]
"""The keys of two sentences, sorted."""


def sentence_key(sentence: str) -> str:
    """Return the letters and digits of a sentence, without case; empty if it has none."""
    if sentence.isascii():  # most sentences are, and this is seven times as fast
        return sentence.encode().translate(_ASCII_LOWERED, _ASCII_DROPPED).decode()
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return _NEITHER_LETTER_NOR_DIGIT.sub("", folded)


def pair_key(first: str, second: str) -> PairKey:
    """Return the keys of two sentences, independent of their order."""
    one, other = sorted((sentence_key(first), sentence_key(second)))
    return one, other


class TrainingData(Settings):
    """The data that an encoder was trained on and selected by, as its sweep names it."""

    dev: DevSelection = setting(..., "the dev sets in use, with the files of own ones")
    chosen_on: tuple[str, ...] = setting(
        ..., "names of the dev sets that chose its checkpoint or its configuration"
    )
    corpora: tuple[CorpusSpec, ...] = setting((), "the training corpora")
    backbone: str | None = setting(None, "the encoder that training began from")
    teachers: tuple[str, ...] = setting((), "frozen encoders that it learned from")
    data: str | None = setting(None, "where dev sets and corpora are read from")


def choosing_pairs(training: TrainingData) -> set[PairKey]:
    """Return the keys of the pairs of the dev sets that selected an encoder.

    For `transfer_dev` these are the pairs of MRPC; the other transfer sets hold single sentences.
    Those of tasks of a library or of own files are not among them.

    DataError if a dev set cannot be read, or has changed.
    """
    keys = set[PairKey]()
    for name in set(training.chosen_on) - training.dev.references.keys():
        if name == "transfer_dev":
            mrpc = load_transfer_set("mrpc", training.data).train
            first, second = mrpc.first, mrpc.second or ()
        else:
            pairs = load_dev_pairs(training.dev, name, training.data)
            first, second = pairs.first, pairs.second
        keys.update(map(pair_key, first, second))
    return keys


def read_keys(
    path: Path, settings: TableSettings | None = None
) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """Read the keys of the sentences and of the pairs, duplicates included, of a text, of a table,
    or of all of them in a folder. There are pairs if a row has at least two sentences.

    A text has one sentence a line. A table is known by its name, and read as a sweep reads it with
    these settings; or it is of SentEval, by its name or by tabs in most lines of a text, and its
    quotes are characters. There, a column holds sentences if most of its cells have several words,
    and other columns are ignored. In a folder, files without a line or cell of several words, such
    as gold scores, are left out.

    DataError if a file cannot be read, or there is no sentence.
    """
    files = files_below(path) if path.is_dir() else [path]
    read = [_read_file(file, settings) for file in files]
    if path.is_dir():
        read = [rows for rows in read if any(" " in text.strip() for row in rows for text in row)]
    texts = [row for rows in read for row in rows]
    if not any(text.strip() for row in texts for text in row):
        raise DataError(
            f"{path}: no sentence; expected one a line, or a table with columns of several words"
        )
    pairs = [row[:2] for row in texts if len(row) > 1 and all(map(str.strip, row[:2]))]
    sentences = [key for row in texts for text in row if (key := sentence_key(text))]
    return sentences, [pair_key(first, second) for first, second in pairs]


def _read_file(path: Path, settings: TableSettings | None) -> list[list[str]]:
    """Read the sentences of each row."""
    kind = kind_of_file(path.name)
    is_table = kind not in ("", *TEXTS)
    lines = [] if kind == ".parquet" else read_lines(path)
    has_tabs = 2 * sum("\t" in line for line in lines[:100]) > len(lines[:100])
    if has_tabs and (not is_table or path.name in _SENTEVAL_NAMES):
        table = read_table(path, TableSettings(format="unquoted"))
    elif is_table:
        table = read_table(path, settings)
    else:
        return [[line] for line in lines]
    width = len(table.rows[0].cells) if table.rows else 0
    columns = [0] if width == 1 else []
    for index in range(width) if width > 1 else ():
        cells = [row.cells[index] for row in table.rows]
        several = sum(isinstance(cell, str) and " " in cell.strip() for cell in cells)
        if 2 * several > len(table.rows):
            columns.append(index)
    if table.names is None and table.rows and _has_header(table.rows, columns):
        table = table.headed()
    if not columns:
        return []
    rows = table.select([index + 1 for index in columns])
    return [[str(cell or "") for cell in row.cells] for row in rows]


def _has_header(rows: Sequence[FileRow], columns: Sequence[int]) -> bool:
    """Whether the first row holds names: above numbers, or words in place of sentences."""
    first, *others = (row.cells for row in rows)
    if len(first) > 1 and not any(" " in first[index].strip() for index in columns):
        return True
    return any(
        parse_number(name) is None
        and others
        and all(parse_number(cells[index]) is not None for cells in others)
        for index, name in enumerate(first)
    )
