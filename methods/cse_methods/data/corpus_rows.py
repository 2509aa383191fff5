"""Reads the rows of a corpus file; each has one sentence, or one for each named column."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.errors import DataError
from cse_methods.files.tables import read_table, recognise_table
from cse_methods.files.text import read_lines

CorpusRows = list[tuple[str, ...]]


class CorpusFile(NamedTuple):
    """What is read of a file."""

    rows: CorpusRows
    dropped: int
    """Number of rows that were dropped because a sentence in them was empty."""
    note: str = ""
    """A sentence on how the file was read; empty if there is nothing to say."""


def read_corpus_file(path: Path, spec: CorpusSpec, *, name: str | None = None) -> CorpusFile:
    """Read the sentences of a text with one a line, or of the columns of a table that `spec` names.

    White space around a sentence is dropped; a line break inside one becomes a space. The note
    calls the file `name`, or by the name of its corpus.

    Raises:
        DataError: if the file cannot be read, lacks a column, has no row, or has a row that does
            not consist of sentences; the message names the first such line.
    """
    if spec.named_columns:
        return _read_columns(path, spec, name or spec.short_name)
    lines = read_lines(path)
    note = ""
    if path.suffix != ".parquet" and recognise_table(path, lines):
        note = (
            f"corpus {name or spec.short_name} is read as plain text, with one sentence a line; "
            f"to read it as a table, name its column: {{name: {spec.short_name}, column: …}}"
        )
    rows, dropped = without_empty([line.strip() for line in lines], path, drop=spec.drop_empty)
    return CorpusFile(rows, dropped, note)


def without_empty(lines: Sequence[str], path: Path, *, drop: bool) -> tuple[CorpusRows, int]:
    """Make a row of each line with text, and count the empty lines.

    Raises:
        DataError: if all lines are empty, or one is and `drop` is False.
    """
    rows: CorpusRows = [(line,) for line in lines if line]
    if not rows:
        raise DataError(f"{path}: no sentences; a corpus holds one sentence a line")
    empty = len(lines) - len(rows)
    if empty and not drop:
        raise DataError(
            f"{path}, line {list(lines).index('') + 1}: empty{_more(empty)}; remove such lines, or "
            "set drop_empty: true for this corpus"
        )
    return rows, empty


def _read_columns(path: Path, spec: CorpusSpec, name: str) -> CorpusFile:
    columns = spec.named_columns
    table = read_table(path, spec, only=[*map(str, columns), *spec.where])
    if not table.rows:
        raise DataError(f"{path}: no rows; expected sentences in column {columns[0]!r}")
    if table.names is not None and not isinstance(columns[0], str):
        names = ", ".join(table.names)
        raise DataError(f"{path}: its columns have names, {names}; name one by them")
    read: CorpusRows = []
    empty: list[str] = []
    for row in table.select(columns, spec.where):
        cells = tuple(_sentence(cell, row.where) for cell in row.cells)
        if all(cells):
            read.append(cells)
        else:
            empty.append(row.where)
    if not read:
        raise DataError(f"{path}: no sentences in the columns that are named")
    if empty and not spec.drop_empty:
        raise DataError(
            f"{empty[0]}: an empty sentence{_more(len(empty))}; remove such rows, or set "
            "drop_empty: true for this corpus"
        )
    return CorpusFile(read, len(empty), table.quotes and f"corpus {name}: {table.quotes}")


def _more(count: int) -> str:
    return f", the first of {count}" if count > 1 else ""


def _sentence(cell: Any, where: str) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, str):
        raise DataError(f"{where}: expected a sentence, got {cell!r}; name a column of text")
    return cell.strip().replace("\r\n", " ").replace("\n", " ")
