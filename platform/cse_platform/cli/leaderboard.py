"""cse-leaderboard: which method is better, from SQL."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cse_platform.cli.annotate import annotate_command
from cse_platform.cli.audit import audit_command
from cse_platform.cli.common import (
    CONTEXT,
    CommandGroup,
    StoreOptions,
    filter_options,
    format_options,
    is_typed,
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
    from cse_platform.leaderboard.families import FamilyName
    from cse_platform.leaderboard.filters import Filters
    from cse_platform.presentation.board_entries import Board
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
    help="Also show the papers' own numbers, or those of one table: rankcse:2. Without it, "
    "--published-file shows the rows of its file alone.",
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
def main(
    *,
    filters: "Filters",
    tasks: "FamilyName | None",
    per_configuration: bool,
    sort: str | None,
    published: str | None,
    published_files: tuple[Path, ...],
    against: str | None,
    format: "Format",
    show: tuple[str, ...],
    wide: bool,
    stores: StoreOptions,
) -> None:
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
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.leaderboard.families import family_of
    from cse_platform.leaderboard.published.rows import (
        PublishedRow,
        merge_repeated_rows,
        published_rows,
    )
    from cse_platform.presentation.board import board_document
    from cse_platform.presentation.board_entries import Board
    from cse_platform.presentation.terminal import progress_bar

    tables = _TABLES if "all" in show else show
    paper_tables = tuple(published.split(",")) if published else ()
    backbone, method = filters.backbone, filters.method
    papers = list[PublishedRow]()
    if shows_published := published is not None or is_typed("published_files"):
        printed = published_rows(
            backbone=backbone,
            method=method,
            files=published_files,
            tables=paper_tables,
            shipped=published is not None,
            ablations=False,
        )
        papers = merge_repeated_rows(printed)
    try:
        reader = open_leaderboard(stores.url, published=published_files)
    except NoStoreError as error:
        if against or not shows_published:
            raise
        echo(f"{error}; showing only published numbers", err=True)
        board = Board([], published=papers, family=tasks or "sts", sorted_by=sort)
    else:
        with reader, progress_bar("resampling") as move:
            ours = reader.rows(
                filters,
                tasks=tasks,
                per_configuration=per_configuration,
                sort=sort,
                progress=lambda done, total: move(advance=done, total=total),
            )
            family = tasks or family_of(ours)
            board = Board(
                ours,
                published=papers,
                family=family,
                sorted_by=sort,
                against=reader.against(ours, against, filters, tasks=family) if against else {},
                by_width=reader.by_width(ours) if "widths" in tables else (),
            )
            if not ours:
                echo(_explain_no_rows(filters, reader.catalogue()), err=True)
            for note in _name_other_scores(
                reader, board, filters, tasks=tasks, per_configuration=per_configuration
            ):
                echo(note, err=True)
    if "widths" in tables and not any(board.by_width):
        echo("No shown row has scores by width; --all shows every configuration.", err=True)
    for note in (
        *_explain_missing_scores(board, asked=tasks is not None, against=against is not None),
        *(_explain_no_published(board, published, filters) if shows_published else ()),
    ):
        echo(note, err=True)
    print_document(board_document(board, tables, wide=wide), format=format, wide=wide)


def _name_other_scores(
    reader: "Leaderboard",
    board: "Board",
    filters: "Filters",
    *,
    tasks: "FamilyName | None",
    per_configuration: bool,
) -> Iterator[str]:
    """Name scores that rows without any have on a lab's own sets, or in other configurations."""
    from cse_platform.leaderboard.families import OWN

    if all(row.scores for row in board.rows):
        return
    if tasks is None:
        own = reader.rows(filters, tasks=OWN, per_configuration=per_configuration, ranked=False)
        if any(row.scores for row in own):
            yield "Some rows have scores on own test sets; --tasks own shows them"
    elif not per_configuration:
        every = reader.rows(filters, tasks=tasks, per_configuration=True, ranked=False)
        hidden, shown = (
            {(row.method, row.backbone, row.dev.identity) for row in rows if row.scores}
            for rows in (every, board.rows)
        )
        for row in board.rows:
            if (row.method, row.backbone, row.dev.identity) in hidden - shown:
                yield (
                    f"{row.reference} on {row.backbone}, the best on dev {row.dev.search}, has no "
                    f"test scores of {tasks}, and other configurations of {row.method} have; --all "
                    "shows them"
                )


def _explain_missing_scores(board: "Board", *, asked: bool, against: bool) -> Iterator[str]:
    """Say that no row has scores of tasks that were asked for, and which rows have no mark."""
    columns, rows = board.columns.columns, board.rows
    if asked and rows and not any(column in row.scores for row in rows for column in columns):
        yield f"No shown row has test scores of {board.family}; they are ranked on dev."
    unmarked = [
        f"{row.reference} on {row.backbone}"
        for index, row in enumerate(rows)
        if against and row.scores and index not in board.against
    ]
    if len(unmarked) > 1:  # the reference itself has no mark
        yield (
            "Not marked, because they are the reference or were scored on other data: "
            f"{', '.join(unmarked)}."
        )


def _explain_no_published(
    board: "Board", published: str | None, filters: "Filters"
) -> Iterator[str]:
    """Say that no published row has scores of the shown tasks."""
    from cse_platform.leaderboard.families import family_named
    from cse_platform.presentation.board_entries import is_on_tests

    shown = family_named(board.family)
    if not any(is_on_tests(row, shown) for row in board.published):
        selected = ", ".join(filter(None, (published, filters.backbone, filters.method)))
        other = "choose other scores with --tasks, or " * bool(board.published)
        yield (
            f"No published row{f' of {selected}' * bool(selected)} has test scores of "
            f"{board.family}; {other}show a whole table with `cse-leaderboard paper PAPER TABLE`."
        )


def _explain_no_rows(filters: "Filters", known: Mapping[str, Sequence[str]]) -> str:
    given = {name: value for name, value in asdict(filters).items() if value}
    since = given.pop("since", None)
    named = [f"{name} {value!r}" for name, value in given.items()]
    if since:
        named.append(f"{since:%Y-%m-%d %H:%M} or later")
    listed = [f"{name} {', '.join(values)}" for name, values in known.items() if values]
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
