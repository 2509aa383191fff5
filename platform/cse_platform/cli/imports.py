"""cse-leaderboard import: results from elsewhere."""

from pathlib import Path

import click

from cse_platform.cli.common import StoreOptions, StrictCommand, UserPath, store_options
from cse_platform.standard_streams import echo


@click.command("import", cls=StrictCommand)
@click.argument("file", metavar="FILE", type=UserPath())
@click.option("--sweep", help="The name that the trials come under.")
@click.option("--trial", help="The trial that a folder with mteb's results is about.")
@store_options
def import_command(file: Path, sweep: str | None, trial: str | None, stores: StoreOptions) -> None:
    """Import runs from a table: CSV, JSON lines or Parquet. Or attach mteb's results to a trial.

    A row is a run or, with a step, a dev point of one. The columns are run, method, backbone, seed,
    state, started, finished, step, dev.NAME, test.TASK, param.NAME and train.NAME.
    docs/importing.md describes them, and shows for each tracker how to make the table with pandas.
    A second import adds only new runs. Imported trials never share a row with trials whose dev sets
    this project has checked.

    With --trial, FILE is a folder with mteb's results of one revision of a model. Unless that is
    the trial's key, as in `export --results`, the scores are marked as claimed.

    \b
    Examples:
        cse-leaderboard import lab-b.csv --sweep lab-b
        cse-leaderboard import results/my-lab__simcse/1 --trial quickstart-simcse#3
    """
    if (sweep is None) == (trial is None):
        raise click.UsageError(
            "--sweep names a sweep for a table, or --trial a trial for mteb's results"
        )
    if trial is not None:
        from cse_platform.imports.mteb_results import import_mteb_results

        new, known, claimed = import_mteb_results(
            file, trial=trial, runs=stores.folder, store=stores.url_beside_runs
        )
        mark = ", marked as claimed" * claimed
        echo(f"Scores: {new} new, {known} already here{mark}")
        return
    assert sweep is not None
    from cse_platform.imports.runs import import_runs

    echo(str(import_runs(file, sweep=sweep, runs=stores.folder, store=stores.url_beside_runs)))
