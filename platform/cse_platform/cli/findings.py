"""cse-leaderboard search: what a sweep's search has found, and how far to trust it."""

from dataclasses import asdict

import click

from cse_platform.cli.common import StoreOptions, StrictCommand, print_json, store_options
from cse_platform.standard_streams import echo

MOST = 10_000
"""The most trials that are read; from a larger search, a sample is read."""


@click.command(cls=StrictCommand)
@click.argument("sweep")
@store_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, scores as fractions.")
def search_command(sweep: str, stores: StoreOptions, as_json: bool) -> None:
    """Show what SWEEP's search found, and how reliable it is.

    Shows the best score that fewer trials would have reached on average; how much of the best score
    is luck, judged by further seeds; the importance of each hyperparameter, with its uncertainty;
    and the bounds of the search space that the best trials are close to.

    \b
    Example:
        cse-leaderboard search quickstart-rankcse
    """
    from cse_platform.errors import QueryError
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.leaderboard.statistics.searches import LEAST_SEARCHED
    from cse_platform.search.findings import format_findings, search_findings

    with open_leaderboard(stores.url) as board:
        findings = search_findings(board.search(sweep, limit=MOST))
    if findings is None:
        raise QueryError(
            f"fewer than {LEAST_SEARCHED} search trials of sweep {sweep!r} have a dev score, "
            "which is too few to judge the search; it needs more trials"
        )
    if as_json:
        print_json(asdict(findings))
    else:
        for line in format_findings(findings):
            echo(line)
