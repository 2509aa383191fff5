"""Following a sweep from anywhere, by its leaderboard alone: the commands."""

from pathlib import Path

import click

from cse_platform.cli.common import leaderboard_url
from cse_platform.cli.request import about_sweep


@about_sweep
def logs(sweep: str, runs: Path | None, store: str | None) -> None:
    """Print what the driver of SWEEP has said so far: warnings, and one line per finished trial.

    \b
    Examples:
        cse-sweep logs rankcse-bert-base
        cse-sweep logs rankcse-bert-base --store postgresql+psycopg://lab@db.lab/leaderboard
    """
    from cse_platform.cli.following import print_logs

    print_logs(leaderboard_url(runs, store), sweep)


@about_sweep
def attach(sweep: str, runs: Path | None, store: str | None) -> None:
    """Follow SWEEP until it ends: a live table on a terminal, otherwise one line per trial.

    Ctrl-C stops the display, not the sweep. The exit code is the sweep's: 0 if it is complete, 1 if
    it was refused or failed, 130 if it was interrupted.

    \b
    Example:
        cse-sweep attach rankcse-bert-base
    """
    from cse_platform.cli.following import follow

    raise click.exceptions.Exit(follow(leaderboard_url(runs, store), sweep))
