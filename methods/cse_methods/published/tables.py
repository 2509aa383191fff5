"""The papers' own settings: one CSV table a method, beside this file, with a row for each number.

Rows of the same `backbone` and `variant` are one column of a paper's table. `variant` holds the
settings in which a column differs from its neighbours (`rank_loss=listnet`, several with `;`
between). A row `search_NAME` is the space that the paper searched for NAME: values with `|`
between, or a range `low..high`. A row `note` says in a sentence what a column is that is not its
authors' whole setup. In other rows `|` makes a list, `{…}` is a mapping as in JSON, and `null` is
no value. A backbone is what training starts from.

`papers.csv` says where each method comes from, `departures.csv` where the shipped sweep files of
papers depart from them, `lengths.csv` how long the sentences of their corpora are.
"""

import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.contract import Paper, PublishedSettings
from cse_methods.files.text import read_own_table

_FOLDER = Path(__file__).parent
_HEAD = ["backbone", "variant", "hyperparameter", "value", "source"]
_SEARCHED = "search_"
_NOTE = "note"


class Departure(NamedTuple):
    """Where what is shipped for some tables or figures of a paper differs from the paper."""

    paper: str
    """By the name of its method."""
    tables: tuple[str, ...]
    """As sweep files are named after them: `table5`, `figure2`."""
    text: str
    """A sentence of what the paper has, and what stands in its place."""


class _Row(NamedTuple):
    backbone: str
    variant: str
    name: str
    value: str
    source: str
    location: str
    """The file and line."""

    def make_error(self, problem: str) -> ValueError:
        return ValueError(f"{self.location}: {problem}")


def paper_of(method: str) -> Paper:
    """Read where a method of this package comes from. LookupError if `papers.csv` has no row."""
    for row in read_own_table(_FOLDER / "papers.csv"):
        if row["method"] == method:
            return Paper(row["title"], row["url"], int(row["year"]))
    raise LookupError(f"{_FOLDER / 'papers.csv'} has no row of {method}; add its paper")


def published_settings(method: str) -> tuple[PublishedSettings, ...]:
    """Read the columns of a method of this package as `read_published` does; some have none."""
    table = _FOLDER / f"{method}.csv"
    return read_published(table) if table.is_file() else ()


def departures(paper: str) -> tuple[Departure, ...]:
    """Read where the shipped sweep files of a paper differ from it."""
    return tuple(
        Departure(paper, tuple(row["tables"].split("|")), row["departure"])
        for row in read_own_table(_FOLDER / "departures.csv")
        if row["paper"] == paper
    )


def published_lengths(corpus: str) -> dict[str, dict[tuple[float, float], float]]:
    """Read what papers print of the lengths of a corpus.

    Returns:
        By source, e.g. `hicl table2`, the share of the sentences with more word pieces than the
        first bound and at most as many as the second, by these.
    """
    by_table: dict[str, dict[tuple[float, float], float]] = {}
    for row in read_own_table(_FOLDER / "lengths.csv"):
        if row["corpus"] == corpus:
            bounds = float(row["over"]), float(row["to"])
            of_table = by_table.setdefault(f"{row['paper']} {row['table']}", {})
            of_table[bounds] = float(row["percent"]) / 100
    return by_table


def read_published(table: Path | str) -> tuple[PublishedSettings, ...]:
    """Read the columns of a table, in its order.

    Whole numbers are int, other numbers float, `true` and `false` bool, `null` is None. A column's
    settings hold its variant too; its source is that of its settings, each named once.

    Raises:
        ValueError: if the table is malformed; names the file and line.
    """
    columns: dict[tuple[str, str], list[_Row]] = {}
    for row in _read_rows(Path(table)):
        columns.setdefault((row.backbone, row.variant), []).append(row)
    return tuple(map(_make_column, columns.values()))


def _read_rows(table: Path) -> Iterator[_Row]:
    with table.open(newline="", encoding="utf-8") as stream:
        lines = csv.reader(stream, strict=True)
        for cells in lines:
            location = f"{table}, line {lines.line_num}"
            head = lines.line_num == 1
            if len(cells) != len(_HEAD) or "" in (cells[0], *cells[2:]) or head != (cells == _HEAD):
                raise ValueError(f"{location}: expected {', '.join(_HEAD)}, got {cells}")
            if not head:
                backbone, variant, name, value, source = cells
                yield _Row(backbone, variant, name, value, source, location)


def _make_column(rows: list[_Row]) -> PublishedSettings:
    parts = [part.partition("=") for part in rows[0].variant.split(";") if rows[0].variant]
    if not all(name and value for name, _, value in parts):
        problem = f"expected a variant of NAME=VALUE;NAME=VALUE, got {rows[0].variant!r}"
        raise rows[0].make_error(problem)
    variant = {name: _read_scalar(value) for name, _, value in parts}
    settings: dict[str, Any] = dict(variant)
    searched: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    for row in rows:
        name, into = row.name, settings
        value: Any
        if name == _NOTE:
            into, value = notes, row.value
        elif name.startswith(_SEARCHED):
            name, into, value = name.removeprefix(_SEARCHED), searched, _read_space(row)
        elif row.value.startswith("{"):
            try:
                value = json.loads(row.value)
            except ValueError:
                raise row.make_error(f"expected a mapping as in JSON, got {row.value!r}") from None
        else:
            values = [_read_scalar(text) for text in row.value.split("|")]
            value = values if len(values) > 1 else values[0]
        if name in into:
            raise row.make_error(f"{row.name} is given twice for one column")
        into[name] = value
    sources = dict.fromkeys(row.source for row in rows if row.name in settings)
    return PublishedSettings(
        rows[0].backbone, settings, ", ".join(sources), variant, searched, notes.get(_NOTE, "")
    )


def _read_space(row: _Row) -> Any:
    if ".." not in row.value:
        return tuple(map(_read_scalar, row.value.split("|")))
    ends = [_read_scalar(text) for text in row.value.split("..")]
    if len(ends) != 2 or not all(isinstance(end, (int, float)) for end in ends):
        raise row.make_error(f"expected a range LOW..HIGH of numbers, got {row.value!r}")
    return {"low": ends[0], "high": ends[1]}


def _read_scalar(text: str) -> bool | int | float | str | None:
    if text == "null":
        return None
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text
