"""cse-dashboard: the leaderboard and its sweeps as pictures."""

from pathlib import Path

import click

from cse_platform.cli.common import (
    CONTEXT,
    RUNS,
    leaderboard_url,
    published_option,
    refuse_options_before,
    shows_errors,
    store_options,
    version_option,
)

FORMS = ("html", "svg", "png", "pdf")
HOST, PORT = "127.0.0.1", 8900


@click.group(invoke_without_command=True, context_settings=CONTEXT)
@version_option
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="Address to listen on; 0.0.0.0 serves everyone who can reach this machine.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True)
@click.option(
    "--mlflow",
    envvar="CSE_MLFLOW_URI",
    show_envvar=True,
    help="Address of the MLflow server to link to, e.g. http://localhost:5000.",
)
@click.option(
    "--allow-control",
    is_flag=True,
    help="Let whoever opens the printed address write notes, and stop, retry or enqueue.",
)
@published_option
@store_options
@click.pass_context
@shows_errors
def main(
    context: click.Context,
    *,
    host: str,
    port: int,
    mlflow: str | None,
    allow_control: bool,
    published_files: tuple[Path, ...],
    runs: Path | None,
    store: str | None,
) -> None:
    """Serve a page over the leaderboard: ranking, sweeps, searches, comparisons, trials.

    The page reads the store at each click, and writes nothing without --allow-control. Its address
    holds everything you choose, so you can send a view to a colleague. Ctrl-C stops it.

    \b
    Examples:
        cse-dashboard
        cse-dashboard --runs /data/lab/runs --port 9000
        cse-dashboard --allow-control
        cse-dashboard export quickstart-rankcse pictures --format svg
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context, "cse-dashboard")
        return
    from cse_dashboards.page.app import serve
    from cse_dashboards.page.control import Control

    url = leaderboard_url(runs, store)
    control = Control(runs or RUNS) if allow_control else None
    serve(url, host=host, port=port, mlflow=mlflow, published=published_files, control=control)


@main.command("export", context_settings=CONTEXT)
@click.argument("sweep")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="html",
    show_default=True,
    help="Format of the single figures; all but html need `cse-platform[images]` and Chromium.",
)
@click.option(
    "--beside",
    metavar="ROW",
    multiple=True,
    help="Row beside the sweep's best, instead of the best of each other method: METHOD, "
    "METHOD@CONFIGURATION or a trial's key; can be given again.",
)
@click.option(
    "--sentence",
    "sentences",
    metavar="TEXT",
    multiple=True,
    help="Sentence of the heat map; can be given again.  [default: pairs of STS-B dev]",
)
@click.option(
    "--query",
    metavar="TEXT",
    help="Sentence of STS-B dev whose targets are ranked.  [default: the one in most pairs]",
)
@published_option
@store_options
@shows_errors
def export_figures(
    *,
    sweep: str,
    folder: Path,
    form: str,
    beside: tuple[str, ...],
    sentences: tuple[str, ...],
    query: str | None,
    published_files: tuple[Path, ...],
    runs: Path | None,
    store: str | None,
) -> None:
    """Write all figures of SWEEP into DIR, a new or empty folder.

    There is report.html with all of them, and figures/ with a file and its numbers as CSV for each.
    DIR needs no network; plotly.min.js in it draws the figures. Figures of embeddings encode the
    dev sentences with the kept models; test sets stay closed.

    \b
    Examples:
        cse-dashboard export quickstart-rankcse pictures
        cse-dashboard export rankcse-bert-base pictures --format pdf
        cse-dashboard export rankcse-bert-base pictures --beside simcse --query "A man sings."
    """
    from cse_dashboards.export import export_sweep
    from cse_dashboards.report import Choices
    from cse_platform.leaderboard import open_leaderboard

    with open_leaderboard(leaderboard_url(runs, store), published=published_files) as reader:
        choices = Choices(beside, sentences, query)
        export_sweep(reader, sweep, folder, form=form, choices=choices)


@main.command(context_settings=CONTEXT)
@click.argument("sweep")
@click.option(
    "--mlflow",
    envvar="CSE_MLFLOW_URI",
    show_envvar=True,
    help="MLflow server or database of the sweep.  [default: mlflow.db in --runs]",
)
@published_option
@store_options
@shows_errors
def publish(
    *,
    sweep: str,
    mlflow: str | None,
    published_files: tuple[Path, ...],
    runs: Path | None,
    store: str | None,
) -> None:
    """Update SWEEP's run in MLflow: its description, report and figures.

    The description has the state of the sweep and its best configurations; text that you wrote
    below it stays. report.html is put among the artifacts, and for a sweep that is complete
    figures/ with a file for each chapter. cse-sweep runs this every few minutes and at its end.

    \b
    Examples:
        cse-dashboard publish quickstart-rankcse
        cse-dashboard publish rankcse-bert-base --mlflow http://localhost:5000
    """
    from cse_dashboards.publish import publish_sweep
    from cse_platform.leaderboard import open_leaderboard
    from cse_platform.sweep.stores import mlflow_uri

    uri = mlflow or mlflow_uri(runs or RUNS, environment={})
    with open_leaderboard(leaderboard_url(runs, store), published=published_files) as board:
        publish_sweep(board, sweep, uri)
