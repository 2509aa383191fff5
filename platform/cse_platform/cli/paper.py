"""cse-leaderboard paper: the papers' tables, and how much of them our trials fill."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cse_platform.cli.common import (
    StoreOptions,
    StrictCommand,
    format_options,
    print_document,
    published_option,
    store_options,
)
from cse_platform.standard_streams import announce, echo

if TYPE_CHECKING:
    from cse_platform.presentation.formats import Format


@click.command("paper", cls=StrictCommand)
@click.argument("name", required=False)
@click.argument("table", required=False)
@published_option
@format_options
@store_options
def paper_command(
    *,
    name: str | None,
    table: str | None,
    published_files: tuple[Path, ...],
    format: "Format",
    stores: StoreOptions,
) -> None:
    """List the papers' tables and figures with your progress, or show one table.

    For each table of all papers, or of the paper NAME, shows its sweep file, how many of its rows
    and printed numbers your trials fill, and how many of its trials are complete. With TABLE, shows
    your scores in the rows and columns of that table.

    \b
    Examples:
        cse-leaderboard paper
        cse-leaderboard paper rankcse --format markdown
        cse-leaderboard paper rankcse 2
    """
    from cse_platform.errors import NoStoreError
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.leaderboard.papers import (
        PaperProgress,
        PaperTable,
        paper_progress,
        paper_table,
        read_paper_files,
    )
    from cse_platform.leaderboard.published.rows import published_rows, rows_of_paper, rows_of_table
    from cse_platform.presentation.paper import paper_document, papers_document

    shown: PaperTable | list[PaperProgress]
    if table is None:
        announce("reading the papers' sweep files")
    try:
        with open_leaderboard(stores.url, published=published_files) as board:
            shown = board.papers() if table is None else board.paper_table(name or "", table)
    except NoStoreError as error:
        echo(f"{error}; no table has trials of yours yet", err=True)
        rows = published_rows(files=published_files)
        if table is None:
            shown = paper_progress(rows, read_paper_files(), [])
        else:
            shown = paper_table(rows_of_table(name or "", table, rows), [])
    if isinstance(shown, PaperTable):
        print_document(paper_document(shown), format=format)
        return
    if name:
        known = rows_of_paper(name, published_rows(files=published_files))
        shown = [row for row in shown if row.paper == known[0].paper]
    print_document(papers_document(shown), format=format)
