"""Print the board of `cse-leaderboard`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cse_methods.errors import BackboneError
from cse_methods.registry import available_methods
from cse_platform.errors import NoStoreError, NotFoundError
from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.board_tables import board_document, is_on_tests
from cse_platform.leaderboard.columns import Board
from cse_platform.leaderboard.published.rows import (
    PublishedRow,
    merge_repeated_rows,
    published_rows,
)
from cse_platform.leaderboard.records import (
    Catalogue,
    FamilyName,
    Filters,
    LeaderboardRow,
    backbones_in,
    family_named,
    family_of,
)
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.render.terminal import print_document, progress_bar
from cse_platform.standard_streams import echo
from cse_platform.sweep.problems import did_you_mean

if TYPE_CHECKING:
    from cse_platform.render.text import Format


@dataclass(frozen=True)
class Question:
    """What the command line asks of a leaderboard, and the format of the answer."""

    filters: Filters
    tasks: FamilyName | None
    per_configuration: bool
    sort: str | None
    published: str | None
    """PAPER:TABLE, several separated by commas; "" means all papers' numbers, None means none."""
    published_files: tuple[Path, ...]
    against: str | None
    format: "Format"
    wide: bool

    @property
    def published_tables(self) -> tuple[str, ...]:
        """The requested tables of papers; empty if none is named."""
        return tuple(self.published.split(",")) if self.published else ()


def answer(question: Question, *, url: str) -> None:
    """Print the board, or without a leaderboard only the papers' numbers."""
    try:
        reader = open_leaderboard(url, published=question.published_files)
    except NoStoreError as error:
        if question.against or question.published is None:
            raise
        echo(f"{error}; showing only the papers' numbers", err=True)
        rows = published_rows(
            backbone=question.filters.backbone,
            method=question.filters.method,
            files=question.published_files,
            tables=question.published_tables,
            ablations=False,
        )
        tasks = question.tasks or "sts"
        _report_unshown(question, rows, tasks)
        papers = merge_repeated_rows(rows)
        board = Board([], published=papers, family=tasks, sorted_by=question.sort)
    else:
        with reader, progress_bar("resampling") as move:

            def progress(done: int, total: int) -> None:
                move(advance=done, total=total)

            board = _make_board(question, reader, progress)
    print_document(board_document(board), format=question.format, wide=question.wide)


def _make_board(
    question: Question, reader: Leaderboard, progress: Callable[[int, int], None]
) -> Board:
    rows = reader.rows(
        question.filters,
        tasks=question.tasks,
        per_configuration=question.per_configuration,
        sort=question.sort,
        progress=progress,
    )
    if not rows:
        there = reader.catalogue()
        _refuse_unknown(question, there)
        echo(_explain_no_rows(question, there), err=True)
    tasks = question.tasks or family_of(rows)
    columns = family_named(tasks, rows).columns
    if question.tasks and rows and not any(c in row.scores for row in rows for c in columns):
        echo(f"No row has test scores of {tasks}; they are ranked on dev.", err=True)
    against: Mapping[int, Comparison] = {}
    if question.against:
        against = reader.against(rows, question.against, question.filters, tasks=tasks)
        _report_unmarked(rows, against)
    published = []
    if question.published is not None:
        published = reader.published(
            backbone=question.filters.backbone,
            method=question.filters.method,
            tables=question.published_tables,
        )
    _report_unshown(question, published, tasks)
    return Board(rows, published=published, family=tasks, sorted_by=question.sort, against=against)


def _refuse_unknown(question: Question, there: Catalogue) -> None:
    """Refuse an unknown method or backbone, because an empty board would hide a typing error."""

    def refuse(kind: str, name: str, known: Collection[str], here: Sequence[str]) -> NoReturn:
        raise NotFoundError(
            f"there is no {kind} {name!r} (on this leaderboard: {', '.join(here) or 'none yet'})"
            f"{did_you_mean(name.lower(), sorted(known))}"
        )

    papers = published_rows(files=question.published_files)
    method = question.filters.method
    methods = {*there.methods, *available_methods(), *(row.method for row in papers)}
    if method is not None and method not in methods:
        refuse("method", method, methods, there.methods)
    backbones = {*there.backbones, *(row.backbone for row in papers)}
    for name in backbones_in(question.filters.backbone or ""):
        if name not in backbones:
            from cse_methods.encoders.backbones import resolve_backbone  # imports pyarrow

            try:
                resolve_backbone(name)
            except BackboneError:
                refuse("backbone", name, backbones, there.backbones)


def _report_unmarked(rows: Sequence[LeaderboardRow], against: Mapping[int, Comparison]) -> None:
    """Name the rows that could not be compared with the reference, which itself has no mark."""
    unmarked = [row for index, row in enumerate(rows) if row.scores and index not in against]
    if len(unmarked) > 1:
        named = ", ".join(f"{row.reference} on {row.backbone}" for row in unmarked)
        echo(
            f"Not marked, because they are the reference or were scored on other data: {named}.",
            err=True,
        )


def _report_unshown(question: Question, rows: Sequence[PublishedRow], tasks: FamilyName) -> None:
    """Print a message if the chosen tables of papers have nothing for the board's columns."""
    family = family_named(tasks)
    if question.published_tables and not any(is_on_tests(row, family) for row in rows):
        echo(
            f"No row of {question.published} has test scores of {tasks} and passes the filters; "
            "choose other scores with --tasks, or show the whole table with `cse-leaderboard "
            "paper PAPER TABLE`.",
            err=True,
        )


def _explain_no_rows(question: Question, there: Catalogue) -> str:
    filters = {name: value for name, value in asdict(question.filters).items() if value}
    since = filters.pop("since", None)
    named = [f"{name} {value!r}" for name, value in filters.items()]
    if since:
        named.append(f"{since:%Y-%m-%d %H:%M} or later")
    known = {name: getattr(there, name) for name in ("backbones", "methods", "sweeps", "tags")}
    known["hardware"] = there.machines
    listed = [f"{name} {', '.join(values)}" for name, values in known.items() if values]
    return (
        f"No complete trial{' of ' + ', '.join(named) if named else ''}. "
        f"On this leaderboard: {'; '.join(listed) if listed else 'nothing yet'}."
    )
