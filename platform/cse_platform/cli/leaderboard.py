"""cse-leaderboard: which method is better, from SQL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cse_platform.cli.annotate import annotate_command
from cse_platform.cli.audit import audit_command
from cse_platform.cli.common import (
    CONTEXT,
    CommandGroup,
    LeaderboardPlace,
    filter_options,
    format_options,
    print_document,
    published_option,
    store_options,
    tasks_option,
    version_option,
    without_subcommand,
)
from cse_platform.cli.compare import compare_command
from cse_platform.cli.findings import search_command
from cse_platform.cli.imports import import_command
from cse_platform.cli.paper import paper_command
from cse_platform.cli.stores import rebuild_command
from cse_platform.cli.trial import export_command, register_command, reproduce_command, show_command
from cse_platform.errors import NoStoreError
from cse_platform.standard_streams import echo

if TYPE_CHECKING:
    from cse_platform.leaderboard.api import Leaderboard
    from cse_platform.leaderboard.published.rows import PublishedRow
    from cse_platform.leaderboard.records import FamilyName, Filters
    from cse_platform.leaderboard.statistics.compare import Comparison
    from cse_platform.presentation.board_columns import Board
    from cse_platform.presentation.formats import Format

_TABLES = ("ranking", "scores", "widths", "hyperparameters", "sweeps", "runs", "costs", "sources")
_SECTIONS = {
    "Daily": "compare paper audit search show annotate export register reproduce",
    "Results from elsewhere": "import",
    "Administration": "rebuild",
}


@click.group(
    cls=CommandGroup,
    sections=_SECTIONS,
    invoke_without_command=True,
    context_settings=CONTEXT,
)
@without_subcommand
@version_option
@filter_options
@tasks_option
@click.option(
    "--all", "per_configuration", is_flag=True, help="Show all configurations, not only the best."
)
@click.option(
    "--sort",
    help="Sort by this column, not by the score that ranks: dev, sts12, rank, n, finished, …",
)
@click.option(
    "--published",
    is_flag=False,
    flag_value="",
    metavar="[PAPER:TABLE]",
    help="Also show the papers' own numbers, or those of one table: rankcse:2.",
)
@published_option
@click.option("--against", metavar="A", help="Mark test scores significantly above those of A.")
@format_options
@click.option(
    "--show",
    type=click.Choice((*_TABLES, "all")),
    multiple=True,
    help="Show this table instead of the ranking, or all; can be repeated.",
)
@click.option("--wide", is_flag=True, help="Show one table with all columns.")
@store_options
def main(*, place: LeaderboardPlace, **options: Any) -> None:
    """Rank methods by their mean test score over seeds, or if there is none, by dev.

    Each combination of method, backbone, dev set and evaluation has one row: the best configuration
    on dev among those with more than one seed, or among all if none has more than one. Intervals
    are 95 % intervals over seeds. Rank intervals come from 2,000 resamples of seeds and pairs. JSON
    and CSV contain fractions; the other formats show scores x 100. The row A of --against is
    METHOD, METHOD@CONFIGURATION, SWEEP, SWEEP#N, or a trial's key or its first 6 digits.

    \b
    Examples:
        cse-leaderboard --backbone bert-base
        cse-leaderboard --backbone bert-base --show scores
        cse-leaderboard --backbone bert-base --published --format latex
        cse-leaderboard --backbone bert-base --published rankcse:2
        cse-leaderboard compare rankcse simcse --backbone bert-base
        cse-leaderboard paper rankcse 2
        cse-leaderboard show quickstart-simcse#3
    """
    _print_answer(_Question(**options), url=place.url)


@dataclass(frozen=True)
class _Question:
    """What the command line asks of a leaderboard, and the format of the answer."""

    filters: "Filters"
    tasks: "FamilyName | None"
    per_configuration: bool
    sort: str | None
    published: str | None
    """PAPER:TABLE, several separated by commas; "" means all papers' numbers, None means none."""
    published_files: tuple[Path, ...]
    against: str | None
    format: "Format"
    show: tuple[str, ...]
    wide: bool

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables to show instead of the ranking; empty if none is named."""
        return _TABLES if "all" in self.show else self.show

    @property
    def published_tables(self) -> tuple[str, ...]:
        """The requested tables of papers; empty if none is named."""
        return tuple(self.published.split(",")) if self.published else ()


def _print_answer(question: _Question, *, url: str) -> None:
    """Print the board, or without a leaderboard only the papers' numbers."""
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.leaderboard.published.rows import merge_repeated_rows, published_rows
    from cse_platform.presentation.board import board_document
    from cse_platform.presentation.board_columns import Board
    from cse_platform.presentation.terminal import progress_bar

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
    document = board_document(board, question.tables, wide=question.wide)
    print_document(document, format=question.format, wide=question.wide)


def _make_board(
    question: _Question, reader: "Leaderboard", progress: Callable[[int, int], None]
) -> "Board":
    from cse_platform.leaderboard.records import family_named, family_of
    from cse_platform.presentation.board_columns import Board

    rows = reader.rows(
        question.filters,
        tasks=question.tasks,
        per_configuration=question.per_configuration,
        sort=question.sort,
        progress=progress,
    )
    if not rows:
        echo(_explain_no_rows(question, reader.catalogue()), err=True)
    tasks = question.tasks or family_of(rows)
    columns = family_named(tasks, rows).columns
    if question.tasks and rows and not any(c in row.scores for row in rows for c in columns):
        echo(f"No row has test scores of {tasks}; they are ranked on dev.", err=True)
    against: Mapping[int, Comparison] = {}
    if question.against:
        against = reader.against(rows, question.against, question.filters, tasks=tasks)
        unmarked = [row for index, row in enumerate(rows) if row.scores and index not in against]
        if len(unmarked) > 1:  # the reference itself has no mark
            named = ", ".join(f"{row.reference} on {row.backbone}" for row in unmarked)
            echo(
                "Not marked, because they are the reference or were scored on other data: "
                f"{named}.",
                err=True,
            )
    published = []
    if question.published is not None:
        published = reader.published(
            backbone=question.filters.backbone,
            method=question.filters.method,
            tables=question.published_tables,
        )
    _report_unshown(question, published, tasks)
    return Board(
        rows,
        published=published,
        family=tasks,
        sorted_by=question.sort,
        against=against,
        by_width=reader.by_width(rows) if "widths" in question.tables else (),
    )


def _report_unshown(
    question: _Question, rows: Sequence["PublishedRow"], tasks: "FamilyName"
) -> None:
    """Print a message if the chosen tables of papers have nothing for the board's columns."""
    from cse_platform.leaderboard.records import family_named
    from cse_platform.presentation.board import is_on_tests

    family = family_named(tasks)
    if question.published_tables and not any(is_on_tests(row, family) for row in rows):
        echo(
            f"No row of {question.published} has test scores of {tasks} and passes the filters; "
            "choose other scores with --tasks, or show the whole table with `cse-leaderboard "
            "paper PAPER TABLE`.",
            err=True,
        )


def _explain_no_rows(question: _Question, there: Mapping[str, Sequence[str]]) -> str:
    filters = {name: value for name, value in asdict(question.filters).items() if value}
    since = filters.pop("since", None)
    named = [f"{name} {value!r}" for name, value in filters.items()]
    if since:
        named.append(f"{since:%Y-%m-%d %H:%M} or later")
    listed = [f"{name} {', '.join(values)}" for name, values in there.items() if values]
    return (
        f"No complete trial{' of ' + ', '.join(named) if named else ''}. "
        f"On this leaderboard: {'; '.join(listed) if listed else 'nothing yet'}."
    )


for command in (
    show_command,
    annotate_command,
    compare_command,
    paper_command,
    audit_command,
    search_command,
    reproduce_command,
    export_command,
    register_command,
    import_command,
    rebuild_command,
):
    main.add_command(command)
