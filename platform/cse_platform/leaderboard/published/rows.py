"""Every published row that is known, and those that papers repeat as one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files as resources
from pathlib import Path

from cse_platform.errors import PublishedError
from cse_platform.leaderboard.published.reading import read_rows
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.query.board.filters import backbones_in
from cse_platform.sweep.reading.problems import did_you_mean

SCORES, ABLATIONS = "scores.csv", "ablations.csv"


def published_rows(
    *,
    backbone: str | None = None,
    method: str | None = None,
    files: Iterable[str | Path] = (),
    tables: Sequence[str] = (),
    ablations: bool = True,
) -> list[PublishedRow]:
    """The rows of the package's tables, then those of a lab's own files.

    A lab's files have the columns of the package's. `method` is one of ours. `tables` keeps the
    rows of these tables, each PAPER:TABLE. Without `ablations` and `tables`, the package's tables
    that turn one switch are left out.

    Raises:
        PublishedError: names every problem of the first file that has any; or there is no such
            paper or table.
    """
    shipped = (SCORES, ABLATIONS) if ablations or tables else (SCORES,)
    rows = [*_shipped(shipped), *(row for file in files for row in read_rows(Path(file)))]
    if tables:
        asked = [table.strip().partition(":") for table in tables]
        rows = [row for paper, _, table in asked for row in rows_of_table(paper, table, rows)]
    return [
        row
        for row in rows
        if (backbone is None or row.backbone in backbones_in(backbone))
        and (method is None or row.method == method)
    ]


@cache
def _shipped(tables: tuple[str, ...]) -> tuple[PublishedRow, ...]:
    folder = resources(__package__)
    return tuple(row for name in tables for row in read_rows(folder / name))


def rows_of_table(paper: str, table: str, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The rows of a paper's table, by its name or its bare number.

    Raises:
        PublishedError: if there is no such paper or table, with those that there are.
    """
    of_paper = [row for row in rows if row.paper.lower() == paper.lower()]
    if not of_paper:
        papers = list(dict.fromkeys(row.paper for row in rows))
        known = f"known: {', '.join(papers)}"
        raise PublishedError(
            f"no tables of a paper {paper!r}{did_you_mean(paper, papers)}; {known}"
        )
    found = [row for row in of_paper if _plain(row.table) == _plain(table)]
    if not found:
        tables = list(dict.fromkeys(row.table for row in of_paper))
        raise PublishedError(
            f"no table {table!r} of {paper} is known{did_you_mean(table, tables)}; "
            f"there are {', '.join(tables)}"
        )
    return found


def _plain(table: str) -> str:
    name = "".join(table.split()).lower()
    return f"table{name}" if name.isdecimal() else name


def merged(rows: Iterable[PublishedRow]) -> list[PublishedRow]:
    """The rows, those that papers repeat as one with all its sources.

    Rows are the same if they have method, system, backbone, split and all scores in common, and are
    of different papers or say the same of the configuration. A method's own paper speaks for the
    others, else the first.
    """
    groups: list[list[PublishedRow]] = []
    of_key: dict[object, list[list[PublishedRow]]] = {}
    for row in rows:
        key = (row.method, row.system, row.backbone, row.split, tuple(sorted(row.scores.items())))
        alike = of_key.setdefault(key, [])
        joined = next((group for group in alike if all(_same(row, one) for one in group)), None)
        if joined is None:
            alike.append(joined := [])
            groups.append(joined)
        joined.append(row)
    return [_one(group) for group in groups]


def _same(row: PublishedRow, other: PublishedRow) -> bool:
    return row.paper != other.paper or row.configuration == other.configuration


def _one(group: Sequence[PublishedRow]) -> PublishedRow:
    speaker = next((row for row in group if row.own), group[0])
    sources = dict.fromkeys(source for row in group for source in row.sources)
    return replace(speaker, sources=tuple(sources))
