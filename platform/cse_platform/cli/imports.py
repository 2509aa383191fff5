"""cse-leaderboard import: results from elsewhere."""

from pathlib import Path

import click

from cse_platform.cli.common import LeaderboardPlace, UserPath, store_options
from cse_platform.standard_streams import echo


@click.command("import")
@click.argument("file", metavar="FILE", type=UserPath())
@click.option("--sweep", required=True, help="The name that the trials come under.")
@store_options
def import_command(file: Path, sweep: str, place: LeaderboardPlace) -> None:
    """Import runs from a table: CSV, JSON lines or Parquet.

    A row is a run or, with a step, a dev point of one. The columns are run, method, backbone, seed,
    state, started, finished, step, dev.NAME, test.TASK, param.NAME and train.NAME.
    docs/importing.md describes them, and shows for each tracker how to make the table with pandas.
    A second import adds only new runs. Imported trials never share a row with trials whose dev sets
    this project has checked.

    \b
    Example:
        cse-leaderboard import lab-b.csv --sweep lab-b
    """
    from cse_platform.imports.runs import import_runs

    done = import_runs(file, sweep=sweep, runs=place.folder, store=place.url_beside_runs)
    echo(f"Trials: {done.new} new, {done.known} already here")
    if done.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in done.left_out.items())
        echo(f"Runs left out: {reasons}")
