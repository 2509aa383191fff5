"""Tables of text in files: CSV, TSV, JSON lines and Parquet, row by row with their lines."""

import csv
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args

from cse_methods.errors import DataError, TableError, nearest_hint
from cse_methods.files.named import TABLES
from cse_methods.files.table_settings import SEPARATORS, ColumnName, TableFormat, TableSettings
from cse_methods.files.text import decode_lines, read_content, refuse_other_content

_NAMES = {"\t": "tabs", ";": "semicolons", "||": "||", "|": "|", ",": "commas"}
_STAND_IN = "\x1f"  # for a separator of several characters: Python's reader takes one
ABSENT = object()
"""The cell of a key that a JSON object lacks."""


class FileRow(NamedTuple):
    location: str
    """For people: the file and the line that the row begins on, or its number in a Parquet file."""
    cells: Sequence[Any]
    """Texts of CSV and TSV; JSON values of the others, ABSENT where an object lacks the key."""


@dataclass(frozen=True)
class FileTable:
    path: Path
    format: TableFormat
    names: tuple[str, ...] | None
    """Of the columns; None for CSV and TSV, whose first row is a header if `headed` is called."""
    rows: Sequence[FileRow]
    """Each has as many cells as the first, or as there are names."""

    def headed(self) -> Self:
        """Take the first row for the names of the columns, unless they have names.

        DataError if two columns have one name.
        """
        if self.names is not None:
            return self
        location, cells = self.rows[0] if self.rows else (str(self.path), ())
        names = [str(cell).strip() for cell in cells]
        _refuse_repeated(names, location)
        return replace(self, names=tuple(names), rows=self.rows[1:])

    def select(
        self, columns: Sequence[ColumnName], where: Mapping[str, Any] | None = None
    ) -> list[FileRow]:
        """Return the cells of these columns, of the rows that have these values in others.

        A column that is named makes the first row of CSV and TSV a header.

        DataError if a column is missing, no row has one of these values, or a row lacks a cell.
        """
        where = where or {}
        if self.names is None and (where or any(isinstance(column, str) for column in columns)):
            return self.headed().select(columns, where)
        indices = {column: self._find_index(column) for column in (*where, *columns)}
        rows = self.rows
        for column, value in where.items():
            self._refuse_absent(rows, [indices[column]])
            accepted = set(map(_format_plain, value if isinstance(value, tuple) else (value,)))
            present = dict.fromkeys(_format_plain(row.cells[indices[column]]) for row in rows)
            rows = [row for row in rows if _format_plain(row.cells[indices[column]]) in accepted]
            if lacking := accepted - present.keys():
                known = f"there are {', '.join(list(present)[:10])}"
                wanted = ", ".join(sorted(lacking))
                raise DataError(f"{self.path}: no row with {column}: {wanted}; {known}")
        kept = [indices[column] for column in columns]
        self._refuse_absent(rows, kept)
        return [FileRow(row.location, [row.cells[index] for index in kept]) for row in rows]

    def _find_index(self, column: ColumnName) -> int:
        """Return the index of a column, from 0. Raises DataError if there is none."""
        if isinstance(column, int):
            width = len(self.rows[0].cells) if self.names is None else len(self.names)
            if column > width:
                raise DataError(
                    f"{self.path}: no column {column}; there are {width}, counted from 1"
                )
            return column - 1
        names = self.names or ()
        if column not in names:
            known = f"there are {', '.join(names)}.{nearest_hint(column, names)}"
            raise DataError(f"{self.path}: no column {column!r}; {known}")
        return names.index(column)

    def _refuse_absent(self, rows: Iterable[FileRow], indices: Sequence[int]) -> None:
        names = self.names or ()
        for location, cells in rows if self.format == "jsonl" else ():
            if lacking := [names[index] for index in indices if cells[index] is ABSENT]:
                keys = [key for key, cell in zip(names, cells, strict=True) if cell is not ABSENT]
                raise DataError(f"{location}: no key {lacking[0]!r}; there are {', '.join(keys)}")


def read_table(
    path: Path, settings: TableSettings | None = None, *, only: Sequence[str] = ()
) -> FileTable:
    """Read the table in a file; UTF-8, may be compressed.

    CSV and TSV are read as RFC 4180 has them: a cell in quotes may hold separators, line breaks
    and quotes written twice. JSON lines are objects. Blank lines are left out. Of Parquet, `only`
    are the columns that are read; without it all are.

    DataError if the file cannot be read, is in another format, or could be meant in another way.
    Names the line. It advises settings only if some are given: elsewhere none can be stated.
    """
    stated = settings or TableSettings()
    kind = stated.format_of(path)
    if kind is None:
        formats = ", ".join(get_args(TableFormat))
        raise TableError(
            f"{path}: no table by the end of its name; save it as {', '.join(TABLES)}",
            setting="format",
            advice=f"; or state in a sweep file its format: {formats}" if settings else "",
        )
    if kind == "parquet":
        return _read_parquet(path, only)
    lines = decode_lines(read_content(path), path)
    if kind == "jsonl":
        entries = [
            (location := f"{path}, line {number}", _read_json_object(line, location))
            for number, line in enumerate(lines, start=1)
            if line.strip()
        ]
        names = tuple(dict.fromkeys(key for _, entry in entries for key in entry))
        rows = [
            FileRow(location, [row.get(key, ABSENT) for key in names]) for location, row in entries
        ]
        return FileTable(path, kind, names, rows)
    separator = stated.separator or SEPARATORS[kind]
    number, first = next(((n, line) for n, line in enumerate(lines, 1) if line.strip()), (1, ""))
    if re.fullmatch('"?sep=.?"?', first, re.IGNORECASE):
        raise DataError(f"{path}, line {number}: {first!r} is for Excel alone; remove this line")
    other = next((one for one in _NAMES if one in first), None)
    if stated.separator is None and separator not in first and other is not None:
        advice = (
            f", or state separator: {json.dumps(other)} in a sweep file ({json.dumps(separator)} "
            "if it is one cell)"
        )
        raise TableError(
            f"{path}, line {number}: {shorten(first)} is separated by {_NAMES[other]}; save it "
            f"with {_NAMES[separator]}",
            setting="separator",
            advice=advice if settings else "",
        )
    also = "" if separator == "\t" else f", separator: {json.dumps(separator)}"
    key = "file" if "file" in type(stated).model_fields else "name"
    advice = f"; or write {{{key}: {path}, format: unquoted{also}}} if quotes are characters"
    quoted, advice = kind != "unquoted", advice if settings else ""
    read = _read_records(path, lines, separator, quoted=quoted, advice=advice)
    rows = [row for row in read if "".join(row.cells).strip()]
    width = len(rows[0].cells) if rows else 0
    if odd := next((row for row in rows if len(row.cells) != width), None):
        raise DataError(
            f"{odd.location}: {len(odd.cells)} cells, but the first row has {width}; put cells "
            f"with {separator!r} in them in quotes, fill up short rows, and name each column (R: "
            "row.names = FALSE)"
        )
    return FileTable(path, kind, None, rows)


def _read_records(
    path: Path, lines: Sequence[str], separator: str, *, quoted: bool, advice: str
) -> Iterator[FileRow]:
    """Read the rows one by one; if `quoted`, quotes enclose cells, or `advice` ends the error."""
    csv.field_size_limit(2**31 - 1)  # of the whole process, whose default is 131,072 characters
    one = separator if len(separator) == 1 else _STAND_IN
    cell = rf'(?:"[^"]*+(?:""[^"]*+)*+"|[^"{re.escape(one)}]*+)'
    well_formed = re.compile(rf"{cell}(?:{re.escape(one)}{cell})*+")
    pending = deque[str]()
    reader = csv.reader(iter(pending.popleft, None), delimiter=one, strict=True)
    numbered, location = enumerate(lines, start=1), f"{path}, line"
    for number, line in numbered:
        if not quoted or '"' not in line:
            yield FileRow(f"{location} {number}", line.split(separator))
            continue
        parts, is_open = [line], line.count('"') % 2
        while is_open and (more := next(numbered, None)):
            parts[-1] += "\n"
            parts.append(more[1])
            is_open ^= more[1].count('"') % 2
        if one != separator:  # a stand-in among the texts is white space to Python
            parts = [part.replace(one, " ").replace(separator, one) for part in parts]
        text = "".join(parts)
        if not well_formed.fullmatch(text):  # the reader takes a quote inside a cell as it is
            problem = f"{location} {number}: {_describe_quotes(text, one)}"
            raise TableError(problem, setting="unquoted", advice=advice)
        pending.extend(parts)
        cells = next(reader)
        # In TSV, a cell of several lines with tabs is rows that stand between quotes by chance.
        if one == "\t" and any("\t" in cell and "\n" in cell for cell in cells):
            problem = f"{location} {number}: {_describe_quotes(text, one)}"
            raise TableError(problem, setting="unquoted", advice=advice)
        whole = cells if one == separator else [cell.replace(one, separator) for cell in cells]
        yield FileRow(f"{location} {number}", whole)


def _describe_quotes(text: str, separator: str) -> str:
    """Say what is wrong with the quotes in the text of a row, and how to write them."""
    if re.search(rf'(?:^|{re.escape(separator)})[^\S\n{re.escape(separator)}]+"', text):
        return "a blank before the quote of a cell; remove it"
    if '\\"' in text:
        return 'a backslash before a quote; write a quote in a cell twice: ""'
    if "\n" in text or text.count('"') % 2:
        return 'a quote that no other closes; close it, and write one in a quoted cell twice: ""'
    return 'a quote inside a cell; put the cell in quotes, and write this one twice: ""'


def _make_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make a mapping of an object's keys and values; a KeyError names one that it has twice."""
    made = dict[str, Any]()
    for key, value in pairs:
        if key in made:
            raise KeyError(key)
        made[key] = value
    return made


def _read_json_object(line: str, location: str) -> dict[str, Any]:
    try:
        entry = json.loads(line, object_pairs_hook=_make_object)
    except KeyError as error:
        raise DataError(f"{location}: the key {error} stands in it twice; keep one") from None
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise DataError(
            f"{location}: expected one JSON object a line, got {shorten(line.strip())}; save it as "
            "JSON lines (pandas: to_json(orient='records', lines=True))"
        )
    if "\\ud" in line.lower():
        try:
            json.dumps(entry, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"half an emoji (\\u{ord(error.object[error.start]):x})"
            raise DataError(f"{location}: {half}, which is no text; remove it") from None
    return entry


def _read_parquet(path: Path, only: Sequence[str]) -> FileTable:
    from pyarrow import ArrowException, BufferReader, parquet

    content = read_content(path)
    refuse_other_content(content, path, ending=".parquet")
    try:
        # Python's bytes: what Arrow opens by itself, no guard of test sets would see.
        file = parquet.ParquetFile(BufferReader(content))
        names = file.schema_arrow.names
        _refuse_repeated(names, str(path))
        known = [name for name in only if name in names]
        table = file.read(columns=known if len(known) == len(only) > 0 else None).to_pydict()
    except (OSError, ValueError, ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise DataError(
            f"{path}: no Parquet file that can be read ({reason}); write or fetch it again"
        ) from problem
    rows = zip(*table.values(), strict=True)
    numbered = [FileRow(f"{path}, row {n}", row) for n, row in enumerate(rows, start=1)]
    return FileTable(path, "parquet", tuple(table), numbered)


def _refuse_repeated(names: Sequence[str], location: str) -> None:
    """Raise a DataError if two columns have one name; unnamed ones, as of an index, may be many."""
    if repeated := [name for name in dict.fromkeys(names) if name and names.count(name) > 1]:
        raise DataError(
            f"{location}: {names.count(repeated[0])} columns are called {repeated[0]!r}; give each "
            "its own name"
        )


def shorten(text: str) -> str:
    """Quote a text for a message, of a long one its beginning."""
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


def _format_plain(cell: Any) -> str:
    return (
        str(cell).lower() if isinstance(cell, bool) else str("" if cell is None else cell).strip()
    )
