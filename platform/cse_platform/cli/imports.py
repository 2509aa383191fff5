"""cse-leaderboard import: results from elsewhere."""

from pathlib import Path

import click

from cse_platform.cli.common import LeaderboardPlace, UserPath, UserUrl, store_options
from cse_platform.standard_streams import echo


class _MappingPath(UserPath):
    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        return (
            "It is a YAML file that names the sweep, the method and the backbone of the runs, and "
            "where their seed, hyperparameters and dev score are read: docs/importing.md."
        )


@click.command("import")
@click.argument("source", metavar="FILE|URL", type=UserUrl())
@click.option(
    "--mapping",
    required=True,
    type=_MappingPath(dir_okay=False),
    help="YAML file that maps the names in the runs to the names used here.",
)
@store_options
def import_command(source: str, mapping: Path, place: LeaderboardPlace) -> None:
    """Import runs from a table or from MLflow.

    FILE is a table of CSV, TSV, JSON, JSON lines, Excel or Parquet, or a folder with MTEB's results
    of an encoder. URL is an MLflow tracking server, the URL of a database, or a folder of runs. The
    import does not change the source. The mapping file names the sweep to add the trials to, and
    maps columns, or params, tags and metrics. A second import adds only new runs. Imported trials
    never share a row with trials whose dev sets this project has checked.

    \b
    Examples:
        cse-leaderboard import wandb_export.csv --mapping simcse-runs.yaml
        cse-leaderboard import http://mlflow.lab:5000 --mapping simcse-runs.yaml
    """
    from cse_platform.imports.runs import read_runs
    from cse_platform.imports.trials import import_trials
    from cse_platform.stores.sql.store import open_store

    mlflow = "://" in source or source.startswith("file:")
    if not mlflow and (folder := Path(source)).is_dir() and not any(folder.glob("*.json")):
        source, mlflow = folder.absolute().as_uri(), True
    # A refused import must not create an empty leaderboard.
    trials, name, unfinished = read_runs(source, mapping, mlflow=mlflow)
    url, folder = place.url_beside_runs, place.folder
    with open_store(url) as board:
        new, here = import_trials(board, trials, source=name, runs=folder)
    echo(f"Runs: {len(trials) + unfinished}, {unfinished} of them still running and left out")
    left_out = len(trials) - new - here
    attempts = f", {left_out} earlier attempts left out" if left_out else ""
    echo(f"Trials: {new} new, {here} already here{attempts}")
