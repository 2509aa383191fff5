"""Every published row that is known, and those that papers repeat as one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files as resources
from pathlib import Path

from cse_platform.leaderboard.published.reading import read_rows
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.query.board.filters import backbones_in

SCORES, ABLATIONS = "scores.csv", "ablations.csv"


def published_rows(
    *,
    backbone: str | None = None,
    method: str | None = None,
    files: Iterable[str | Path] = (),
    ablations: bool = True,
) -> list[PublishedRow]:
    """The rows of the package's tables, then those of a lab's own files.

    A lab's files have the columns of the package's. `method` is one of ours. Without `ablations`,
    the package's tables that turn one switch are left out.

    Raises:
        PublishedError: names every problem of the first file that has any.
    """
    shipped = (SCORES, ABLATIONS) if ablations else (SCORES,)
    rows = [*_shipped(shipped), *(row for file in files for row in read_rows(Path(file)))]
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
