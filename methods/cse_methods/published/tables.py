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
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.contract import Paper, PublishedSettings
from cse_methods.files.text import read_own_table

_FOLDER = Path(__file__).parent
_HEAD = ["backbone", "variant", "hyperparameter", "value", "source"]
_SEARCHED = "search_"
_Column = tuple[dict[str, Any], dict[str, None], dict[str, Any], dict[str, Any], dict[str, str]]
"""Settings, their sources in order, the variant, what was searched, and the note."""


class Departure(NamedTuple):
    """Where what is shipped for some tables or figures of a paper differs from the paper."""

    paper: str
    """By the name of its method."""
    tables: tuple[str, ...]
    """As sweep files are named after them: `table5`, `figure2`."""
    text: str
    """A sentence of what the paper has, and what stands in its place."""


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
    columns: dict[tuple[str, str], _Column] = {}
    with Path(table).open(newline="", encoding="utf-8") as stream:
        lines = csv.reader(stream, strict=True)
        for cells in lines:
            head = lines.line_num == 1
            try:
                if len(cells) != 5 or "" in (cells[0], *cells[2:]) or head != (cells == _HEAD):
                    raise ValueError(f"expected {', '.join(_HEAD)}, got {cells}")
                if not head:
                    _add_row(columns, *cells)
            except ValueError as error:
                raise ValueError(f"{table}, line {lines.line_num}: {error}") from None
    return tuple(
        PublishedSettings(
            backbone, settings, ", ".join(sources), variant, searched, notes.get("note", "")
        )
        for (backbone, _), (settings, sources, variant, searched, notes) in columns.items()
    )


def _add_row(
    columns: dict[tuple[str, str], _Column],
    backbone: str,
    told: str,
    name: str,
    text: str,
    source: str,
) -> None:
    if (backbone, told) not in columns:
        parts = [part.partition("=") for part in told.split(";") if told]
        if not all(key and value for key, _, value in parts):
            raise ValueError(f"expected a variant of NAME=VALUE;NAME=VALUE, got {told!r}")
        variant = {key: _read_scalar(value) for key, _, value in parts}
        columns[backbone, told] = dict(variant), {}, variant, {}, {}
    settings, sources, _, searched, notes = columns[backbone, told]
    own = name
    into: dict[str, Any] = settings
    value: Any = text
    if name == "note":
        into = notes
    elif name.startswith(_SEARCHED):
        own, into, value = name.removeprefix(_SEARCHED), searched, _read_space(text)
    else:
        value, sources[source] = _read_value(text), None
    if own in into:
        raise ValueError(f"{name} is given twice for one column")
    into[own] = value


def _read_value(text: str) -> Any:
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            raise ValueError(f"expected a mapping as in JSON, got {text!r}") from None
    values = [_read_scalar(part) for part in text.split("|")]
    return values if len(values) > 1 else values[0]


def _read_space(text: str) -> Any:
    if ".." not in text:
        return tuple(map(_read_scalar, text.split("|")))
    ends = [_read_scalar(end) for end in text.split("..")]
    if len(ends) != 2 or not all(isinstance(end, (int, float)) for end in ends):
        raise ValueError(f"expected a range LOW..HIGH of numbers, got {text!r}")
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
