"""cse-dashboard: the leaderboard and its sweeps as pictures."""

from pathlib import Path
from typing import Any

import click

from cse_platform.cli.common import (
    CONTEXT,
    CommandGroup,
    StoreOptions,
    UserPath,
    UserUrl,
    published_option,
    store_options,
    version_option,
    without_subcommand,
)
from cse_platform.databases import MLFLOW_VARIABLES

FORMS = ("html", "svg", "png", "pdf")
HOST, PORT = "127.0.0.1", 8900


@click.group(
    cls=CommandGroup,
    sections={"Commands": "export"},
    invoke_without_command=True,
    context_settings=CONTEXT,
)
@without_subcommand
@version_option
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="Address to listen on; 0.0.0.0 serves everyone who can reach this machine.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--mlflow",
    type=UserUrl(),
    envvar=MLFLOW_VARIABLES,
    show_envvar=True,
    help="Address of the MLflow server to link to, e.g. http://localhost:5000.",
)
@click.option(
    "--allow-control",
    is_flag=True,
    help="Let whoever opens the printed address write notes and control sweeps.",
)
@published_option
@store_options
def main(
    *,
    host: str,
    port: int,
    mlflow: str | None,
    allow_control: bool,
    published_files: tuple[Path, ...],
    stores: StoreOptions,
) -> None:
    """Show the leaderboard on a web page, or export its figures.

    Without a subcommand, serves a page with ranking, sweeps, searches, comparisons and trials. The
    page reads the store at each click. It writes nothing, unless --allow-control lets you write
    notes and control sweeps there. Its address contains everything you choose, so you can send a
    view to a colleague. Ctrl-C stops it. The subcommand `export` writes files.

    \b
    Examples:
        cse-dashboard
        cse-dashboard --runs /data/lab/runs --port 9000
        cse-dashboard --allow-control
        cse-dashboard export quickstart-rankcse pictures --format svg
    """
    from cse_dashboards.page.app import serve
    from cse_dashboards.page.control import Control

    url = stores.url
    control = Control(stores.folder) if allow_control else None
    serve(url, host=host, port=port, mlflow=mlflow, published=published_files, control=control)


@main.command("export")
@click.argument("sweep")
@click.argument("folder", metavar="DIR", type=UserPath(file_okay=False))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="html",
    show_default=True,
    help="Format of each figure's file; all but html need Chromium and `cse-platform[images]`.",
)
@click.option(
    "--beside",
    "references",
    metavar="ROW",
    multiple=True,
    help="Compare the sweep's best row with this one, not with the best of each other method: "
    "METHOD, METHOD@CONFIGURATION, SWEEP, SWEEP#N or a trial's key; can be repeated.",
)
@click.option(
    "--sentence",
    "sentences",
    metavar="TEXT",
    multiple=True,
    help="Sentence for the heat map; can be repeated.  [default: pairs of STS-B dev]",
)
@click.option(
    "--query",
    metavar="TEXT",
    help="Sentence of STS-B dev whose partners are ranked.  [default: the one in most pairs]",
)
@published_option
@store_options
def export_figures(
    *,
    sweep: str,
    folder: Path,
    published_files: tuple[Path, ...],
    stores: StoreOptions,
    **choices: Any,
) -> None:
    """Write all figures of SWEEP into DIR, a new or empty folder.

    report.html shows all of them, and figures/ has a file for each, with its numbers as CSV. They
    need no network, only plotly.min.js, which is in DIR. For the figures of embeddings, the kept
    models encode the dev sentences; no test set is opened.

    \b
    Examples:
        cse-dashboard export quickstart-rankcse pictures
        cse-dashboard export rankcse-bert-base pictures --format pdf
        cse-dashboard export rankcse-bert-base pictures --beside simcse --query "A man sings."
    """
    from cse_dashboards.export import export_sweep
    from cse_platform.leaderboard import open_leaderboard

    with open_leaderboard(stores.url, published=published_files) as reader:
        export_sweep(reader, sweep, folder, **choices)
