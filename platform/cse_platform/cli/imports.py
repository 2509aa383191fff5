"""The import commands: results from elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cse_platform.cli.common import (
    CONTEXT,
    UserPath,
    leaderboard_and_runs,
    shows_errors,
    store_options,
)
from cse_platform.standard_streams import echo
from cse_platform.urls import expand_url

if TYPE_CHECKING:
    from cse_platform.imports.records import Imported
    from cse_platform.imports.runs import RunsToImport


def _mapping_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--mapping`, a file that maps names in the logged runs to ours."""
    return click.option(
        "--mapping",
        required=True,
        type=UserPath(dir_okay=False),
        help="YAML file that maps the names in the runs to the names used here.",
    )(command)


@click.command("import-mlflow", context_settings=CONTEXT)
@click.argument("uri")
@_mapping_option
@store_options
@shows_errors
def import_mlflow(uri: str, mapping: Path, runs: Path | None, store: str | None) -> None:
    """Import runs from an MLflow store.

    URI is a tracking server, the URL of a database, or a folder of runs; it is only read. Importing
    again adds only new runs. The mapping file names the sweep to add the trials to, and maps
    params, tags and metrics. Imported trials never share a row with trials whose dev sets this
    project has checked.

    \b
    Example:
        cse-leaderboard import-mlflow http://mlflow.lab:5000 --mapping simcse-runs.yaml
    """
    from cse_platform.imports.runs import read_runs

    uri = expand_url(uri)
    if "://" not in uri and not uri.startswith("file:"):
        uri = Path(uri).absolute().as_uri()
    there = read_runs(uri, mapping)  # a refused import must not create an empty leaderboard
    _import_runs(there, runs, store)


@click.command("import-csv", context_settings=CONTEXT)
@click.argument("file", type=UserPath(dir_okay=False))
@_mapping_option
@store_options
@shows_errors
def import_csv(file: Path, mapping: Path, runs: Path | None, store: str | None) -> None:
    """Import runs from a CSV table, such as an export of W&B.

    Each row of FILE is a run, and the first row names the columns. Importing again adds only new
    rows. The mapping file is like that of `import-mlflow`, but without experiments; its params and
    metrics are columns.

    \b
    Example:
        cse-leaderboard import-csv wandb_export.csv --mapping simcse-runs.yaml
    """
    from cse_platform.imports.exports import TableRuns
    from cse_platform.imports.runs import read_exported_runs

    _import_runs(read_exported_runs(file, mapping, TableRuns), runs, store)


@click.command("import-trackio", context_settings=CONTEXT)
@click.argument("file", type=UserPath(dir_okay=False))
@_mapping_option
@store_options
@shows_errors
def import_trackio(file: Path, mapping: Path, runs: Path | None, store: str | None) -> None:
    """Import the runs of a Trackio project.

    FILE is PROJECT.db in Trackio's folder, ~/.cache/huggingface/trackio; it is only read. Importing
    again adds only new runs. The mapping file is like that of `import-mlflow`, but without
    experiments; its params are entries of the config.

    \b
    Example:
        cse-leaderboard import-trackio simcse.db --mapping simcse-runs.yaml
    """
    from cse_platform.imports.exports import TrackioRuns
    from cse_platform.imports.runs import read_exported_runs

    _import_runs(read_exported_runs(file, mapping, TrackioRuns), runs, store)


def _import_runs(there: "RunsToImport", runs: Path | None, store: str | None) -> None:
    from cse_platform.imports.records import apply_trials
    from cse_platform.stores.sql.store import open_store

    url, folder = leaderboard_and_runs(runs, store)
    with open_store(url) as board:
        imported = apply_trials(board, there.sweeps, source=there.source, runs=folder)
    echo(f"Runs: {there.total}, {there.unfinished} of them not ended and left out")
    echo(_format_import(imported))


@click.command("import-log", context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=UserPath())
@click.option("--sweep", required=True, help="Name of the sweep to add the trials to.")
@click.option("--method", required=True, help="Method that was trained, e.g. simcse.")
@click.option("--backbone", required=True, help="Backbone that was trained, e.g. bert-base.")
@click.option("--seed", default=42, show_default=True, help="Seed of the training.")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A hyperparameter, by the name used here; can be repeated.",
)
@click.option(
    "--dev",
    type=click.Choice(["stsb", "sickr", "transfer_dev"]),
    default="stsb",
    show_default=True,
    help="Dev set that selects the best step.",
)
@click.option("--scale", default=1.0, help="Divide dev scores by this; 100 for percentages.")
@click.option(
    "--steps-per-epoch", type=int, help="Steps in an epoch, for logs that count in epochs."
)
@store_options
@shows_errors
def import_log(
    files: tuple[Path, ...],
    values: tuple[str, ...],
    runs: Path | None,
    store: str | None,
    **given: object,
) -> None:
    """Import training logs of Hugging Face's Trainer.

    Each FILE becomes one trial. It is the standard output of a training run with lines such as
    {'eval_stsb_spearman': 0.78, 'epoch': 0.02}, a file of JSON lines, or a trainer_state.json.
    Importing a file again adds nothing.

    \b
    Example:
        cse-leaderboard import-log train.log --sweep simcse-logs --method simcse \\
            --backbone bert-base --set learning_rate=3e-5 --steps-per-epoch 15625
    """
    from cse_platform.imports.logs import log_settings, read_logs
    from cse_platform.imports.records import apply_trials
    from cse_platform.stores.sql.store import open_store

    settings = log_settings(dict(_parse_pair(text, "--set") for text in values), **given)
    logs = read_logs(files, settings)  # a refused import must not create an empty leaderboard
    url, folder = leaderboard_and_runs(runs, store)
    with open_store(url) as board:
        imported = apply_trials(board, logs.sweeps, source=logs.source, runs=folder)
    echo(_format_import(imported))
    echo(f"Dev points: {logs.points}, {logs.repeated} repeated ones left out")


def _parse_pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise click.UsageError(f"{option} takes NAME=VALUE, got {text!r}")
    return name, value


def _format_import(imported: "Imported") -> str:
    gave_way = f", {imported.gave_way} earlier attempts left out" if imported.gave_way else ""
    return f"Trials: {imported.new} new, {imported.already_here} here already{gave_way}"
