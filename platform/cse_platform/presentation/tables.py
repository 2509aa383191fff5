"""Tables, pages and documents, before they have a format; and what programs read: JSON and CSV."""

import csv
import io
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import chain, compress
from math import ceil
from typing import Any, ClassVar, Generic, Literal, TypeVar

from cse_platform.numbers import percent
from cse_platform.values import group_by

Align = Literal["left", "right"]
Emphasis = Literal["none", "best", "second"]
Markup = Literal["text", "code"]
"""How a cell's text is written in Markdown: escaped, or as code."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str = ""
    spread: str = ""
    """A standard deviation, without the plus-minus sign."""
    mark: str = ""
    """Footnote marks, separated by blanks."""
    emphasis: Emphasis = "none"
    """The emphasis of `text`."""
    link: str = ""
    """The target of a link on `text`, in formats that have links."""
    markup: Markup = "text"

    @property
    def suffix(self) -> str:
        """The spread and the marks, to follow the text."""
        spread = f"±{self.spread}" if self.spread else ""
        return " ".join(filter(None, (spread, self.mark)))

    @property
    def plain(self) -> str:
        """The whole cell as plain text."""
        return " ".join(filter(None, (self.text, self.suffix)))


@dataclass(frozen=True)
class ColumnHead:
    """The head of a column."""

    name: str
    align: Align = "left"
    sort: str = ""
    """The order by which this head can sort the rows; empty if by none."""


TableRow = tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table for people. Its method names a row; without one, its first cell does."""

    kind: ClassVar[str] = "table"

    heads: tuple[ColumnHead, ...]
    groups: tuple[tuple[TableRow, ...], ...]
    """Groups of rows, separated by lines; each row has as many cells as there are heads."""
    title: str = ""
    notes: tuple[str, ...] = ()
    """Lines below the table."""

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """The rows of all groups."""
        return tuple(chain.from_iterable(self.groups))


BARS = " ▁▂▃▄▅▆▇█"


def bars(counts: Sequence[float]) -> str:
    """Draw a bar for each count, from a blank for 0 to a full block for the highest."""
    most = max((*counts, 0)) or 1
    return "".join(BARS[ceil(count * (len(BARS) - 1) / most)] for count in counts)


def sparkline(values: Sequence[float | None], *, width: int = 60) -> str:
    """Draw a curve scaled between its lowest and highest values; a missing value is a blank.

    With more values than `width` characters, neighbouring values are averaged.
    """
    size = min(len(values), width)
    parts = [values[n * len(values) // size : (n + 1) * len(values) // size] for n in range(size)]
    known = [[value for value in part if value is not None] for part in parts]
    means = [sum(part) / len(part) if part else None for part in known]
    known_means = [mean for mean in means if mean is not None]
    if not known_means:
        return ""
    low, span = min(known_means), (max(known_means) - min(known_means)) or 1.0
    steps = len(BARS) - 2
    return "".join(
        " " if mean is None else BARS[1 + round((mean - low) / span * steps)] for mean in means
    )


Point = tuple[int, float | None]


@dataclass(frozen=True)
class Heading:
    """The title of the following blocks, up to the next heading of its level."""

    kind: ClassVar[str] = "heading"

    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of Markdown."""

    kind: ClassVar[str] = "paragraph"

    text: str


@dataclass(frozen=True)
class Curve:
    """A dev curve in which at least one point has a value."""

    kind: ClassVar[str] = "curve"

    points: tuple[Point, ...]
    """(step, fraction) in order of steps; None is a gap."""
    best: int | None
    """The step of the best value."""

    @property
    def text(self) -> str:
        """The curve on one line: first value, bars, last value, and steps."""
        values = [value for _, value in self.points]
        known = [value for value in values if value is not None]
        best = "" if self.best is None else f", best at {self.best}"
        return (
            f"{percent(known[0])} {sparkline(values)} {percent(known[-1])}, "
            f"steps {self.points[0][0]} to {self.points[-1][0]}{best}"
        )


Block = Heading | Paragraph | Table | Curve
Page = Iterable[Block]


@dataclass(frozen=True)
class Document:
    """The answer to a question, in forms for people and for programs."""

    tables: Callable[[], Sequence[Table]]
    """Makes the tables for people."""
    csv: Callable[[], str]
    record: Callable[[], Any]
    """Makes the object to write as JSON."""
    printed: Callable[[], Sequence[Table]] | None = None
    """Makes the tables in the form that papers print, if that is another one."""
    hint: str = ""
    """What else a command can show, for a person at a terminal."""


_R = TypeVar("_R")


def as_text(value: Any) -> str:
    """Format a value: None as empty, times as ISO 8601, lists joined by blanks or semicolons."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return ("; " if any(isinstance(entry, str) for entry in value) else " ").join(
                map(str, value)
            )
    return str(value)


def read_path(row: object, path: str) -> Any:
    """Read a dotted attribute path; None if any part is None. Tuples become lists."""
    for name in path.split("."):
        row = None if row is None else getattr(row, name)
    return list(row) if isinstance(row, tuple) else row


@dataclass(frozen=True)
class Column(Generic[_R]):
    """A column: its name, its value for a row, and how people see it.

    JSON has the value, CSV its text. People see the formatted value under the title.
    """

    name: str
    value: Callable[[_R], Any] | str = ""
    """Returns the value for a row, or is the path of the row's attribute: `interval.low`; by
    default, the name is the path.
    """
    format: Callable[[Any], Cell | str] = as_text
    """Formats a value for people, unless it is None or already a cell."""
    title: str = ""
    """The head for people; by default, the name with blanks for underscores."""
    align: Align = "left"
    compared: Callable[[_R], float | None] | None = None
    """Returns the fraction that decides the best and second-best rows; None to compare none."""
    sort: str = ""
    """The order of rows by this column; empty if they cannot be sorted by it."""
    shown: Callable[[_R], Any] | None = None
    """Returns the value that people see, if it differs."""
    csv: Callable[[Any], str] = as_text
    """Formats a value for CSV, unless it is None."""
    parts: "tuple[Column[_R], ...]" = ()
    """Columns that replace this one in CSV, if its value is an object."""

    def read(self, row: _R) -> Any:
        """Return the value for a row."""
        return self.value(row) if callable(self.value) else read_path(row, self.value or self.name)

    def read_shown(self, row: _R) -> Any:
        """Return the value that people see for a row."""
        return (self.shown or self.read)(row)

    def cell(self, row: _R) -> Cell:
        """Make the cell that people see for a row."""
        value = self.read_shown(row)
        if value is None or isinstance(value, Cell):
            return value or Cell()
        written = self.format(value)
        return Cell(written) if isinstance(written, str) else written

    @property
    def head(self) -> ColumnHead:
        """The head of the column for people."""
        return ColumnHead(self.title or self.name.replace("_", " "), self.align, self.sort)


def to_table(
    columns: Sequence[Column[_R]],
    groups: Iterable[Sequence[_R]],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    legend: Mapping[str, str] | None = None,
    compare_groups: bool = False,
    apart: Callable[[_R], Hashable] = lambda _row: None,
) -> Table:
    """Make a table of rows, without columns that are empty.

    Groups are separated by lines. `legend` explains marks; marks that no cell has are left out.
    With `compare_groups`, the best and second-best rows are found in each group. They are also
    found separately for each value of `apart`.
    """
    kept = [list(group) for group in groups if group]
    parts = kept if compare_groups else [list(chain.from_iterable(kept))]
    cells = [row for part in parts for row in _make_cells(columns, part, apart)]
    shown = [any(row[index].plain for row in cells) or not cells for index in range(len(columns))]
    marks = {mark for row in cells for cell in row for mark in cell.mark.split()}
    meanings = (f"{mark} {means}" for mark, means in (legend or {}).items() if mark in marks)
    rows = iter([tuple(compress(row, shown)) for row in cells])
    return Table(
        tuple(compress((column.head for column in columns), shown)),
        tuple(tuple(next(rows) for _ in group) for group in kept),
        title,
        (*meanings, *notes),
    )


def text_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> Table:
    """Make a table of texts, without columns that are empty; the first column has names."""

    def column(index: int, head: str) -> Column[Sequence[str]]:
        kind: Markup = "text" if index else "code"
        return Column(head, lambda row: row[index], lambda text: Cell(text, markup=kind), head)

    columns = [column(index, head) for index, head in enumerate(heads)]
    return to_table(columns, [list(rows)], title=title)


def _make_cells(
    columns: Sequence[Column[_R]], rows: Sequence[_R], apart: Callable[[_R], Hashable]
) -> Iterator[TableRow]:
    """Make the cells of rows, and mark the best and second-best of a column's fractions.

    Rows with the same value of `apart` are compared with each other, as displayed, so that equal
    ones share a place. A single value has no emphasis.
    """
    written = [[column.cell(row) for row in rows] for column in columns]
    kinds = group_by(range(len(rows)), lambda index: apart(rows[index])).values()
    for cells, column in zip(written, columns, strict=True):
        if (fraction := column.compared) is None:
            continue
        for kind in kinds:
            values = {index: fraction(rows[index]) for index in kind}
            shown = {i: round(100 * value, 2) for i, value in values.items() if value is not None}
            highest = sorted(set(shown.values()), reverse=True)[:2] if len(shown) > 1 else []
            emphasised: dict[float, Emphasis] = dict(zip(highest, ("best", "second"), strict=False))
            for index, value in shown.items():
                cells[index] = replace(cells[index], emphasis=emphasised.get(value, "none"))
    yield from zip(*written, strict=True)


def flatten(columns: Iterable[Column[_R]]) -> list[Column[_R]]:
    """List the columns, with columns that have parts replaced by these."""
    return [part for column in columns for part in column.parts or (column,)]


def to_record(columns: Sequence[Column[_R]], row: _R) -> dict[str, Any]:
    """Return the values of a row by column name."""
    return {column.name: column.read(row) for column in columns}


def to_json(value: Any) -> str:
    """Dump anything as JSON with a final line break; dataclasses become objects, times ISO 8601."""

    def default(value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime) else asdict(value)

    return json.dumps(value, indent=2, default=default) + "\n"


def to_csv(columns: Sequence[Column[_R]], rows: Iterable[_R]) -> str:
    """Write a CSV line per row under the names of the columns, or of their parts."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    flat = flatten(columns)
    writer.writerow(csv_cell(column.name) for column in flat)
    writer.writerows(
        [
            "" if (value := column.read(row)) is None else csv_cell(column.csv(value))
            for column in flat
        ]
        for row in rows
    )
    return text.getvalue()


def csv_cell(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would compute as a formula.

    Texts come from anyone's errors, notes and settings. Numbers stay as they are, and so do lists
    of them.
    """
    if not text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return text
    try:
        return text if [float(part) for part in text.split()] else f"'{text}"
    except ValueError:
        return f"'{text}"
