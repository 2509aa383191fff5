"""Tables of text in files: CSV, TSV, JSON lines and parquet, row by row with their lines."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field

from cse_methods.errors import DataError, nearest_hint
from cse_methods.files.named import TABLES, kind_of_file
from cse_methods.files.text import decode_lines, read_content
from cse_methods.settings import Positive, Settings

TableFormat = Literal["csv", "tsv", "jsonl", "parquet"]
ColumnName = Annotated[str, Field(min_length=1)] | Positive
"""Name of a column, or its number from 1."""
_Value = bool | int | float | str
_FORMATS: Mapping[str, TableFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
_SEPARATORS: Mapping[TableFormat, str] = {"csv": ",", "tsv": "\t"}
_OTHERS = {";": "semicolons", "||": "||", "|": "|"}
_QUOTED = re.compile(r'"(?:[^"]|""|\\")*"', re.DOTALL)
"""A cell in quotes; one within it is written twice, or behind a backslash as R does."""
_SAMPLED = 100
"""Number of lines by which a table is recognised."""
_ABSENT = object()
"""The cell of a key that a JSON object lacks."""


class TableSettings(Settings):
    """How a table is read, beyond what the end of the file's name says."""

    format: TableFormat | None = Field(
        default=None,
        description="`csv` (cells can be quoted), `tsv` (a quote is a character), `jsonl` or "
        "`parquet`; else by the end of the file's name",
    )
    separator: str | None = Field(
        default=None,
        min_length=1,
        description="stands between the cells of CSV or TSV, such as `;` or `||`",
    )
    where: dict[str, _Value | tuple[_Value, ...]] = Field(
        default={},
        description="columns and the value, or the list of values, of the rows that are read, such "
        "as `{split: dev}`; all rows without it",
    )

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # a mapping has no hash of its own


class FileRow(NamedTuple):
    where: str
    """For people: the file and the line that the row begins on, or its number in a parquet file."""
    cells: Sequence[Any]
    """Texts of CSV and TSV; JSON values of the others."""


@dataclass(frozen=True)
class FileTable:
    path: Path
    format: TableFormat
    names: tuple[str, ...] | None
    """Of the columns; None for CSV and TSV, whose first row may be a header."""
    rows: Sequence[FileRow]
    quoted: tuple[int, ...] = ()
    """Numbers, from 1, of the columns of TSV that were all in quotes, which are taken off."""

    @property
    def quotes(self) -> str:
        """A clause on the columns whose quotes were taken off; empty if there are none."""
        columns = ", ".join(map(str, self.quoted))
        word = "columns" if len(self.quoted) > 1 else "column"
        return f"the quotes around each cell of {word} {columns} are taken off" * bool(columns)

    def headed(self) -> Self:
        """Take the first row for the names of the columns, unless they have names.

        DataError if a row has fewer cells than the header, or a row of CSV has more, because a
        comma within a sentence makes some.
        """
        if self.names is not None or not self.rows:
            return self
        names = [str(cell).strip() for cell in self.rows[0].cells]
        while names and not names[-1]:
            names.pop()
        rows, width = self.rows[1:], len(names)
        if rows and all(len(row.cells) == width + 1 and row.cells[-1].strip() for row in rows):
            raise DataError(
                f"{self.rows[0].where}: {width} columns, and each row has one cell more, as R "
                "writes the names of rows; write the file without them (row.names = FALSE)"
            )
        if len(rows) > 1 and len({len(row.cells) for row in rows}) == 1:
            names = names[: len(rows[0].cells)]  # names of columns that no row has
        for row in rows:
            self._refuse_width(row, len(names))
        return replace(self, names=tuple(names), rows=rows)

    def select(
        self, columns: Sequence[ColumnName], where: Mapping[str, Any] | None = None
    ) -> list[FileRow]:
        """Return the cells of these columns, of the rows that have these values in others.

        A column that is named makes the first row of CSV and TSV a header.

        DataError if a column is missing, no row has these values, or a row lacks a cell; of CSV
        also if one has too many.
        """
        where = where or {}
        if self.names is None and (where or any(isinstance(column, str) for column in columns)):
            return self.headed().select(columns, where)
        places = [self.place(column) for column in columns]
        rows = self.rows
        if self.names is None and len(rows) > 1:
            # A first row of TSV may be wider than the others; those of CSV have one width.
            ((usual, _),) = Counter(len(row.cells) for row in rows[1:]).most_common(1)
            width = min(len(rows[0].cells), usual) if self.format == "csv" else 0
            for row in rows:
                self._refuse_width(row, width)
        for column, value in where.items():
            place = self.place(column)
            accepted = set(map(_format_plain, value if isinstance(value, tuple) else (value,)))
            found = dict.fromkeys(_format_plain(self._find_cell(row, place)) for row in rows)
            rows = [row for row in rows if _format_plain(row.cells[place]) in accepted]
            if not rows:
                raise DataError(
                    f"{self.path}: no row with {column}: {', '.join(sorted(accepted))}; there are "
                    f"{', '.join(list(found)[:10])}"
                )
        return [
            FileRow(row.where, [self._find_cell(row, place) for place in places]) for row in rows
        ]

    def place(self, column: ColumnName) -> int:
        """Return the index of a column, from 0. Raises DataError if there is none."""
        width = max((len(row.cells) for row in self.rows), default=len(self.names or ()))
        if isinstance(column, int):
            if column > width:
                raise DataError(
                    f"{self.path}: no column {column}; there are {width}, counted from 1"
                )
            return column - 1
        names = self.names or ()
        if column not in names:
            hint = nearest_hint(column, names)
            raise DataError(
                f"{self.path}: no column {column!r}; there are {', '.join(names)}.{hint}"
            )
        return names.index(column)

    def _find_cell(self, row: FileRow, place: int) -> Any:
        cell = row.cells[place] if place < len(row.cells) else _ABSENT
        if cell is _ABSENT and self.format in _SEPARATORS:
            raise DataError(f"{row.where}: {len(row.cells)} columns, expected at least {place + 1}")
        if cell is _ABSENT:
            names = self.names or ()
            keys = [key for key, one in zip(names, row.cells, strict=True) if one is not _ABSENT]
            raise DataError(f"{row.where}: no key {names[place]!r}; there are {', '.join(keys)}")
        return cell

    def _refuse_width(self, row: FileRow, width: int) -> None:
        found = len(row.cells)
        # A comma within a sentence makes too many cells; at the end, all may be empty.
        exact = self.format == "csv" and "".join(row.cells[width:]).strip()
        if found < width or exact:
            hint = (
                "put cells with a comma in quotes"
                if self.format == "csv"
                else "separate them by tabs; if some stand in quotes, state format: csv and "
                "separator: '\\t'"
            )
            others = "other lines have" if row is self.rows[0] else "the first line has"
            raise DataError(f"{row.where}: {found} columns, but {others} {width}; {hint}")


def _format_plain(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell).strip()


def read_table(
    path: Path, settings: TableSettings | None = None, *, only: Sequence[str] = ()
) -> FileTable:
    """Read the table in a file; UTF-8, may be compressed.

    CSV has quotes as in RFC 4180. In TSV a quote is a character, as in SentEval's files, except in
    a column of which every cell begins and ends with one: there they are taken off. JSON lines are
    objects. Blank lines are left out. Of parquet, `only` are the columns that are read; without it
    all are.

    DataError if the file cannot be read, or is in another format. Names the line.
    """
    settings = settings or TableSettings()
    kind = settings.format or _FORMATS.get(kind_of_file(path.name))
    if kind is None and settings.separator:
        kind = "csv" if settings.separator in (",", ";") else "tsv"
    if kind is None:
        raise DataError(
            f"{path}: no table by the end of its name; expected {', '.join(TABLES)}, or state its "
            "format: csv, tsv, jsonl or parquet, or its separator:"
        )
    if kind not in _SEPARATORS and settings.separator:
        raise DataError(f"{path}: {kind} has no separator {settings.separator!r}; leave it out")
    if kind == "parquet":
        return _read_parquet(path, only)
    lines = decode_lines(read_content(path), path)
    if kind == "jsonl":
        entries = [
            (where := f"{path}, line {number}", _read_json_object(line, where))
            for number, line in enumerate(lines, start=1)
            if line.strip()
        ]
        names = tuple(dict.fromkeys(key for _, entry in entries for key in entry))
        read = [FileRow(where, [row.get(key, _ABSENT) for key in names]) for where, row in entries]
        return FileTable(path, kind, names, read)
    separator = settings.separator
    if separator is None:
        separator = _SEPARATORS[kind]
        _refuse_other_separator(path, lines, kind)
    if kind == "csv":
        return FileTable(path, kind, None, list(_read_csv(path, lines, separator)))
    rows = [
        FileRow(f"{path}, line {number}", line.split(separator))
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    return FileTable(path, kind, None, *_take_quotes_off(rows))


def recognise_table(path: Path, lines: Sequence[str]) -> TableFormat | None:
    """Return the format of a table by its content; None for a text with one sentence a line.

    Most lines of a TSV have tabs, and those of JSON lines are objects. A text with commas is CSV if
    the file's name says so, or if a header stands above rows that are all as wide as it is.
    """
    kind = _FORMATS.get(kind_of_file(path.name))
    sample = [line for line in lines[: 2 * _SAMPLED] if line.strip()][:_SAMPLED]
    if kind == "parquet" or not sample:
        return kind
    if all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for line in sample):
        return "jsonl"
    if 2 * sum("\t" in line for line in sample) > len(sample):
        return "tsv"
    if kind is not None:
        return kind
    try:
        rows = [row.cells for row in _read_csv(path, sample, ",")]
    except DataError:
        return None
    header = rows.pop(0) if rows else ()
    is_header = all(re.fullmatch(r"[\w#-]+( [\w#-]+)?|", name.strip()) for name in header)
    alike = len(rows) > 1 and {len(row) for row in rows} == {len(header)}
    return "csv" if len(header) > 1 and is_header and alike else None


def _refuse_other_separator(path: Path, lines: Sequence[str], kind: TableFormat) -> None:
    sample = [line for line in lines[:_SAMPLED] if line.strip()]
    first = sample[0] if sample else ""
    where, tabs = f"{path}, line 1", first.count("\t")
    if kind == "csv" and tabs > 1:
        raise DataError(
            f"{where}: separated by tabs, not by commas; let the file's name end in .tsv, or state "
            "format: tsv"
        )
    for separator, name in _OTHERS.items():
        # In sentences it may stand by chance, as the file's own one may among other cells.
        counts = {line.count(separator) for line in sample}
        alone = 0 not in counts and _SEPARATORS[kind] not in first
        if sample and (alone or (len(sample) >= 10 and len(counts) == 1 and min(counts) > 1)):
            raise DataError(
                f"{where}: separated by {name}; state separator: {separator!r} in a sweep file, or "
                f"save it with {'commas' if kind == 'csv' else 'tabs'}"
            )
    if kind == "tsv" and tabs == 0 and "," in first:
        raise DataError(
            f"{where}: separated by commas, not by tabs; let the file's name end in .csv, or state "
            "format: csv"
        )


def _read_csv(path: Path, lines: Sequence[str], separator: str) -> Iterator[FileRow]:
    csv.field_size_limit(2**31 - 1)  # of the whole process, whose default is 131,072 characters
    stand_in = separator if len(separator) == 1 else "\x1f"  # Python's reader takes one character
    texts = (f"{line}\n".replace(separator, stand_in) for line in lines)
    reader = csv.reader(texts, delimiter=stand_in, strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as problem:
            raise DataError(
                f"{path}, line {begins}: no CSV ({problem}); close each quote, and write one "
                'within a quoted cell twice: "", or state format: tsv if quotes are characters'
            ) from problem
        if cells is None:
            return
        if "".join(cells).strip():
            cells = [cell.replace(stand_in, separator) for cell in cells]
            yield FileRow(f"{path}, line {begins}", cells)


def _take_quotes_off(rows: Sequence[FileRow]) -> tuple[Sequence[FileRow], tuple[int, ...]]:
    """Take the quotes off the columns in which every cell has them, except empty ones and R's NA.

    The first row may be a header, without quotes or with all its names in quotes. Returns the rows,
    and the columns from 1.
    """
    body = rows[1:] or rows
    quoted = []
    for place in range(min((len(row.cells) for row in body), default=0)):
        cells = [cell for row in body if (cell := row.cells[place].strip()) not in ("", "NA")]
        if cells and all(map(_QUOTED.fullmatch, cells)):
            quoted.append(place)
    if not quoted:
        return rows, ()
    bare = []
    all_in_quotes = all(_QUOTED.fullmatch(cell.strip()) for cell in rows[0].cells)
    for row in rows:
        cells = list(row.cells)
        for place in range(len(cells)) if all_in_quotes and row is rows[0] else quoted:
            if place < len(cells) and _QUOTED.fullmatch(cell := cells[place].strip()):
                cells[place] = cell[1:-1].replace('\\"', '"').replace('""', '"')
        bare.append(FileRow(row.where, cells))
    return bare, tuple(place + 1 for place in quoted)


def _read_json_object(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        shown = line.strip()
        shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
        raise DataError(f"{where}: expected one JSON object a line, got {shown!r}")
    return entry


def _read_parquet(path: Path, only: Sequence[str]) -> FileTable:
    from pyarrow import ArrowException, BufferReader, parquet

    try:
        # Python's bytes: what Arrow opens by itself, no guard of test sets would see.
        file = parquet.ParquetFile(BufferReader(read_content(path)))
        known = [name for name in only if name in file.schema_arrow.names]
        table = file.read(columns=known if len(known) == len(only) > 0 else None).to_pydict()
    except (OSError, ArrowException) as problem:
        reason = str(problem).partition("\n")[0]
        raise DataError(f"{path}: no parquet file that can be read ({reason})") from problem
    rows = zip(*table.values(), strict=True)
    numbered = [FileRow(f"{path}, row {n}", row) for n, row in enumerate(rows, start=1)]
    return FileTable(path, "parquet", tuple(table), numbered)
