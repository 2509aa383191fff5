"""What `cse-leaderboard` prints: a board, a comparison, or a paper's table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cse_platform.errors import NoStoreError
from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.published.paper_tables import paper_table
from cse_platform.leaderboard.published.rows import merged, published_rows
from cse_platform.leaderboard.query.board.catalogue import Catalogue
from cse_platform.leaderboard.query.board.filters import Filters
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.document import Document, Format, print_document
from cse_platform.leaderboard.row import FAMILIES, FamilyName, LeaderboardRow, family_of
from cse_platform.leaderboard.statistics.results import Comparison


@dataclass(frozen=True)
class Asked:
    """The command line."""

    backbone: str | None
    method: str | None
    sweep: str | None
    tag: str | None
    identity: str | None
    hardware: str | None
    since: datetime | None
    tasks: FamilyName | None
    per_configuration: bool
    sort: str
    published: bool
    published_files: tuple[Path, ...]
    against: str | None
    compare: tuple[str, str] | None
    compare_all: bool
    paper: str | None
    table: str | None
    format: Format
    wide: bool

    @property
    def compares(self) -> bool:
        """Whether it takes rows of ours to answer."""
        return bool(self.compare or self.compare_all or self.against)

    @property
    def filters(self) -> Filters:
        """What the board is made from."""
        return Filters(
            backbone=self.backbone,
            method=self.method,
            sweep=self.sweep,
            tag=self.tag,
            identity=self.identity,
            hardware=self.hardware,
            since=self.since,
        )


def answer(asked: Asked, *, url: str) -> None:
    """Print what is asked of a leaderboard.

    Raises:
        CseError: if it cannot be answered.
    """
    try:
        reader = open_leaderboard(url, published=asked.published_files)
    except NoStoreError as error:
        if asked.compares or not (asked.published or asked.paper):
            raise
        click.echo(f"{error}; what papers say is all there is", err=True)
        print_document(_without_store(asked), format=asked.format, wide=asked.wide)
        return
    with reader:
        print_document(_document(asked, reader), format=asked.format, wide=asked.wide)


def _document(asked: Asked, reader: Leaderboard) -> Document:
    tasks = asked.tasks or "sts"
    if asked.paper and asked.table:
        return reader.paper_table(asked.paper, asked.table, asked.filters)
    with _progress() as progress:
        if asked.compare:
            return reader.compare(*asked.compare, asked.filters, tasks=tasks, progress=progress)
        if asked.compare_all:
            return reader.compare_all(
                asked.filters,
                tasks=tasks,
                per_configuration=asked.per_configuration,
                progress=progress,
            )
        return _board(asked, reader, progress)


def _board(asked: Asked, reader: Leaderboard, progress: Callable[[int, int], None]) -> Board:
    rows = reader.rows(
        asked.filters,
        tasks=asked.tasks,
        per_configuration=asked.per_configuration,
        sort=asked.sort,
        progress=progress,
    )
    if not rows:
        click.echo(_nothing(asked, reader.catalogue()), err=True)
    tasks = asked.tasks or family_of(rows)
    columns = FAMILIES[tasks].columns
    if asked.tasks and rows and not any(c in row.scores for row in rows for c in columns):
        click.echo(f"No row has test scores of {tasks}; they are ranked on dev.", err=True)
    against = (
        reader.against(rows, asked.against, asked.filters, tasks=tasks) if asked.against else {}
    )
    if asked.against:
        _tell_unmarked(rows, against)
    published = []
    if asked.published:
        published = reader.published(backbone=asked.backbone, method=asked.method)
    return Board(rows, published=published, family=tasks, sorted_by=asked.sort, against=against)


def _tell_unmarked(rows: Sequence[LeaderboardRow], against: Mapping[int, Comparison]) -> None:
    """The reference itself is one of them."""
    unmarked = sum(bool(row.scores) and place not in against for place, row in enumerate(rows)) - 1
    if unmarked > 0:
        click.echo(f"{unmarked} rows were scored on other data and get no mark.", err=True)


def _without_store(asked: Asked) -> Document:
    files = asked.published_files
    if asked.paper and asked.table:
        return paper_table(asked.paper, asked.table, [], files=files)
    found = published_rows(
        backbone=asked.backbone, method=asked.method, files=files, ablations=False
    )
    return Board([], published=merged(found), family=asked.tasks or "sts", sorted_by=asked.sort)


def _nothing(asked: Asked, there: Catalogue) -> str:
    filters = {
        "backbone": asked.backbone,
        "method": asked.method,
        "sweep": asked.sweep,
        "tag": asked.tag,
        "identity": asked.identity,
        "hardware": asked.hardware,
    }
    named = [f"{name} {value!r}" for name, value in filters.items() if value is not None]
    if asked.since:
        named.append(f"{asked.since:%Y-%m-%d %H:%M} or later")
    known = {
        "backbones": there.backbones,
        "methods": there.methods,
        "sweeps": there.sweeps,
        "tags": there.tags,
        "hardware": there.machines,
    }
    listed = [f"{name} {', '.join(values)}" for name, values in known.items() if values]
    return (
        f"No complete trial{' of ' + ', '.join(named) if named else ''}. "
        f"On this leaderboard: {'; '.join(listed) if listed else 'nothing yet'}."
    )


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, as resampling takes a second a row."""
    console = Console(stderr=True)
    columns = (TextColumn("resampling"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("resampling", total=None)
        yield lambda done, total: bar.update(task, advance=done, total=total)
