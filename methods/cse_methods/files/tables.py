"""Tables of text in files: CSV, TSV, JSON lines and parquet, row by row with their lines."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.errors import DataError
from cse_methods.files.named import TABLES, kind_of_file
from cse_methods.files.text import decode_lines, read_content


class FileRow(NamedTuple):
    """One row, and where it stands."""

    where: str
    """For people: the file and the line that the row begins on, or its number in a parquet file."""
    cells: Sequence[Any]
    """Texts of CSV and TSV; JSON values of the others."""


@dataclass(frozen=True)
class FileTable:
    """The rows of a file."""

    names: tuple[str, ...] | None
    """Of the columns; None for CSV and TSV, whose first row may be a header."""
    rows: Sequence[FileRow]


def read_table(path: Path, *, only: Sequence[str] = ()) -> FileTable:
    """The table in a file, in the format that the end of its name says. UTF-8; may be compressed.

    CSV has quotes as in RFC 4180; TSV has none, as in SentEval's files: a quote is a character.
    JSON lines are objects with the keys of the first one. Blank lines are left out. Of JSON lines
    and parquet, `only` are the columns that are read; without it all are.

    Raises:
        DataError: if the file cannot be read, is in another format, or has a row of too few
            cells; of CSV also of too many, because a comma within a sentence makes some. Names
            the line.
    """
    ending = kind_of_file(path.name)
    if ending not in TABLES:
        raise DataError(f"{path}: no table by the end of its name; expected {', '.join(TABLES)}")
    if ending == ".parquet":
        return _parquet(path, only)
    lines = decode_lines(read_content(path), path)
    if ending == ".jsonl":
        return _json_lines(path, lines, tuple(only))
    _refuse_other_separator(path, lines, ending)
    rows = list(_csv(path, lines) if ending == ".csv" else _tsv(path, lines))
    for row in rows:
        _refuse_other_width(row, len(rows[0].cells), exact=ending == ".csv")
    return FileTable(None, rows)


def _refuse_other_separator(path: Path, lines: Sequence[str], ending: str) -> None:
    first = next((line for line in lines if line.strip()), "")
    where, tabs = f"{path}, line 1", first.count("\t")
    if ending == ".csv" and tabs > 1:
        raise DataError(
            f"{where}: separated by tabs, not by commas; let the file's name end in .tsv"
        )
    if ending == ".csv" and "," not in first and ";" in first:
        raise DataError(f"{where}: separated by semicolons; write commas between the columns")
    if ending == ".tsv" and tabs == 0 and "," in first:
        raise DataError(
            f"{where}: separated by commas, not by tabs; let the file's name end in .csv"
        )


def _tsv(path: Path, lines: Sequence[str]) -> Iterator[FileRow]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield FileRow(f"{path}, line {number}", line.split("\t"))


def _csv(path: Path, lines: Sequence[str]) -> Iterator[FileRow]:
    reader = csv.reader((f"{line}\n" for line in lines), strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as problem:
            raise DataError(
                f"{path}, line {begins}: no CSV ({problem}); close each quote, and write one "
                'within a quoted cell twice: ""'
            ) from problem
        if cells is None:
            return
        if "".join(cells).strip():
            yield FileRow(f"{path}, line {begins}", cells)


def _refuse_other_width(row: FileRow, width: int, *, exact: bool) -> None:
    found = len(row.cells)
    if found < width or (exact and found > width):
        hint = "put cells with a comma in quotes" if exact else "separate them by tabs"
        raise DataError(f"{row.where}: {found} columns, but the first line has {width}; {hint}")


def _json_lines(path: Path, lines: Sequence[str], names: tuple[str, ...]) -> FileTable:
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        entry = _json_object(line, where)
        names = names or tuple(entry)
        if missing := [name for name in names if name not in entry]:
            raise DataError(f"{where}: no key {missing[0]!r}; there are {', '.join(entry)}")
        rows.append(FileRow(where, [entry[name] for name in names]))
    return FileTable(names, rows)


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        shown = line.strip()
        shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
        raise DataError(f"{where}: expected one JSON object a line, got {shown!r}")
    return entry


def _parquet(path: Path, only: Sequence[str]) -> FileTable:
    from pyarrow import ArrowException, BufferReader, parquet

    try:
        # Python's bytes: what Arrow opens by itself, no guard of test sets would see.
        file = parquet.ParquetFile(BufferReader(read_content(path)))
        if missing := [name for name in only if name not in file.schema_arrow.names]:
            names = ", ".join(file.schema_arrow.names)
            raise DataError(f"{path}: no column {missing[0]!r}; there are {names}")
        table = file.read(columns=list(only) or None).to_pydict()
    except (OSError, ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise DataError(f"{path}: no parquet file that can be read ({reason})") from problem
    rows = zip(*table.values(), strict=True)
    return FileTable(
        tuple(table), [FileRow(f"{path}, row {n}", row) for n, row in enumerate(rows, start=1)]
    )
