"""cse-leaderboard papers: the papers' tables, their sweep files, and how much of them is filled."""

from pathlib import Path
from typing import Any

import click

from cse_platform.cli.common import (
    CONTEXT,
    format_options,
    leaderboard_url,
    one_format,
    published_option,
    shows_errors,
    store_options,
)
from cse_platform.standard_streams import echo


@click.command(context_settings=CONTEXT)
@published_option
@format_options
@store_options
@click.pass_context
@shows_errors
def papers_command(
    context: click.Context,
    /,
    published_files: tuple[Path, ...],
    runs: Path | None,
    store: str | None,
    **asked: Any,
) -> None:
    """List the papers' tables and figures, and your progress.

    For each of them, shows its sweep file, how many of its rows and printed numbers your trials
    fill, how many of the file's trials are complete, and what the remaining trials cost. Use
    `cse-leaderboard --paper PAPER --table TABLE` to see one table cell by cell.

    \b
    Examples:
        cse-leaderboard papers
        cse-leaderboard papers --format markdown
    """
    from cse_platform.errors import NoStoreError
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.leaderboard.documents import print_document
    from cse_platform.leaderboard.paper_files import paper_progress, read_paper_files
    from cse_platform.leaderboard.published.rows import published_rows

    try:
        with open_leaderboard(leaderboard_url(runs, store), published=published_files) as board:
            progress = board.papers()
    except NoStoreError as error:
        echo(f"{error}; no trial fills anything yet", err=True)
        progress = paper_progress(published_rows(files=published_files), read_paper_files(), [])
    print_document(progress, format=one_format(context, asked))
