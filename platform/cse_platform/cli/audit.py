"""cse-leaderboard audit: each claim of the papers beside the noise that it must beat."""

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


@click.command(context_settings=CONTEXT)
@click.option("--paper", help="Only the tables of this paper, e.g. rankcse.")
@published_option
@format_options
@store_options
@click.pass_context
@shows_errors
def audit_command(
    context: click.Context,
    /,
    paper: str | None,
    published_files: tuple[Path, ...],
    runs: Path | None,
    store: str | None,
    **asked: Any,
) -> None:
    """Set each claim of the papers' tables beside the noise that it must beat.

    A claim is a table and backbone with rows of the paper's own method and of others: the best of
    either side, on the average. Its difference stands beside the noise of test pairs, of seeds (of
    your own trials where there are several, else as papers print it) and of choosing among
    settings, and the seeds that would decide it.

    \b
    Examples:
        cse-leaderboard audit
        cse-leaderboard audit --paper rankcse --format markdown
    """
    from cse_platform.errors import NoStoreError
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.leaderboard.published.audit import audit_claims
    from cse_platform.leaderboard.render.documents import print_document

    try:
        with open_leaderboard(leaderboard_url(runs, store), published=published_files) as board:
            audit = board.audit(paper)
    except NoStoreError as error:
        click.echo(f"{error}; spreads over seeds are those that papers print", err=True)
        audit = audit_claims(paper, files=published_files)
    print_document(audit, format=one_format(context, asked))
