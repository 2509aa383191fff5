"""cse-leaderboard audit: each claim of the papers beside the noise that it must beat."""

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
from cse_platform.standard_streams import echo

if TYPE_CHECKING:
    from cse_platform.presentation.formats import Format


@click.command(cls=StrictCommand)
@click.option("--paper", help="Only the tables of this paper, e.g. rankcse.")
@published_option
@format_options
@store_options
def audit_command(
    *,
    paper: str | None,
    published_files: tuple[Path, ...],
    format: "Format",
    stores: StoreOptions,
) -> None:
    """Check whether the papers' claims exceed the noise.

    A claim says that a paper's own method beats the others in a table, on one backbone: its best
    row is compared with the best row of the others, by average score. The command shows the
    difference, the noise from test pairs, from seeds and from choosing among settings, and the
    number of seeds that would decide the claim. The spread over seeds is taken from your own trials
    if there are several, else from what papers print.

    \b
    Examples:
        cse-leaderboard audit
        cse-leaderboard audit --paper rankcse --format markdown
    """
    from cse_platform.errors import NoStoreError
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.leaderboard.audit import audit_claims, explain_no_claim
    from cse_platform.presentation.audit import audit_document

    try:
        with open_leaderboard(stores.url, published=published_files) as board:
            audit = board.audit(paper)
    except NoStoreError as error:
        echo(f"{error}; using the spreads over seeds that the papers print", err=True)
        audit = audit_claims(paper, files=published_files)
    if paper is not None and not audit:
        echo(explain_no_claim(paper, files=published_files), err=True)
    print_document(audit_document(audit), format=format)
