"""Reads the rows of a corpus file; each has one sentence, or one for each named column."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cse_methods.data.corpus_spec import ColumnName
from cse_methods.errors import DataError, nearest_hint
from cse_methods.files.tables import FileRow, FileTable, read_table
from cse_methods.files.text import read_lines

CorpusRows = list[tuple[str, ...]]


def read_corpus_rows(
    path: Path, columns: Sequence[ColumnName], *, drop_empty: bool
) -> tuple[CorpusRows, int]:
    """Read the sentences of a file, and count the rows dropped because a sentence was empty.

    White space around a sentence is dropped; a line break inside one becomes a space.

    Args:
        path: a text with one sentence a line, or a table.
        columns: the columns of a table, by name, or by number from 1 in a table without a header;
            empty for a text.
        drop_empty: whether rows with an empty sentence are dropped; else they raise an error.

    Raises:
        DataError: if the file cannot be read, lacks a column, has no row, or has a row that does
            not consist of sentences; the message names the first such line.
    """
    if columns:
        return _sentences(path, _named(path, columns), drop=drop_empty)
    lines = [line.strip() for line in read_lines(path)]
    return without_empty(lines, path, drop=drop_empty)


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


def _sentences(path: Path, rows: Sequence[FileRow], *, drop: bool) -> tuple[CorpusRows, int]:
    read: CorpusRows = []
    empty: list[str] = []
    for row in rows:
        cells = tuple(_sentence(cell, row.where) for cell in row.cells)
        if all(cells):
            read.append(cells)
        else:
            empty.append(row.where)
    if not read:
        raise DataError(f"{path}: no sentences in the columns that are named")
    if empty and not drop:
        raise DataError(
            f"{empty[0]}: an empty sentence{_more(len(empty))}; remove such rows, or set "
            "drop_empty: true for this corpus"
        )
    return read, len(empty)


def _more(count: int) -> str:
    return f", the first of {count}" if count > 1 else ""


def _sentence(cell: Any, where: str) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, str):
        raise DataError(f"{where}: expected a sentence, got {cell!r}; name a column of text")
    return cell.strip().replace("\r\n", " ").replace("\n", " ")


def _named(path: Path, columns: Sequence[ColumnName]) -> list[FileRow]:
    """Read the named columns of every row of a table."""
    names = [column for column in columns if isinstance(column, str)]
    table = read_table(path, only=names)
    places = [_place(table, column, path) for column in columns]
    headed = bool(names) and table.names is None
    rows = table.rows[1:] if headed else table.rows
    return [FileRow(row.where, [row.cells[place] for place in places]) for row in rows]


def _place(table: FileTable, column: ColumnName, path: Path) -> int:
    if not table.rows:
        raise DataError(f"{path}: no rows; expected sentences in column {column!r}")
    names = table.names or [str(cell).strip() for cell in table.rows[0].cells]
    if isinstance(column, str):
        if column in names:
            return names.index(column)
        hint = nearest_hint(column, names)
        raise DataError(f"{path}: no column {column!r}; there are {', '.join(names)}.{hint}")
    if table.names is not None:
        raise DataError(f"{path}: its columns have names, {', '.join(names)}; name one by them")
    if column > len(names):
        raise DataError(f"{path}: no column {column}; there are {len(names)}, counted from 1")
    return column - 1
