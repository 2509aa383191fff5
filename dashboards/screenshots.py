"""Take screenshots for the README, of the page of cse-dashboard and of MLflow, in Chromium.

Launch: make screenshots, or python dashboards/screenshots.py docs/images --runs runs

Shows what is in the runs folder: the leaderboard, the sweep that searched the most hyperparameters,
the first two scored methods against each other, and the best trial. Takes about a minute.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import click

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("tests/fixtures", "chaos")]

from browser import chromium, dashboard, settled
from mlflow import MlflowClient
from servers import MlflowServer

from cse_platform.cli.common import UserPath
from cse_platform.databases import sqlite_url
from cse_platform.leaderboard import Leaderboard, open_leaderboard
from cse_platform.stores.mlflow.tags import comparison_link

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

SIZE: "ViewportSize" = {"width": 1440, "height": 900}
PHONE: "ViewportSize" = {"width": 420, "height": 860}
COMPARED = 3
"""Number of runs in MLflow's comparison."""


@dataclass(frozen=True)
class Shot:
    """A view of the page, and which part of it to capture."""

    name: str
    view: str
    top: str = "body"
    """Selector of the element at the upper edge."""
    dark: bool = False
    size: "ViewportSize" = field(default_factory=lambda: SIZE)


@click.command()
@click.argument("folder", type=UserPath(file_okay=False))
@click.option(
    "--runs",
    default="runs",
    show_default=True,
    type=UserPath(),
    help="Runs folder to show.",
)
def main(folder: Path, runs: Path) -> None:
    """Write screenshots of the dashboard and of MLflow into FOLDER.

    \b
    Example:
        python dashboards/screenshots.py docs/images --runs runs
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open_leaderboard(sqlite_url(runs / "leaderboard.db")) as reader:
        sweeps = {sweep.name: sweep.trials for sweep in reader.sweeps()}
        # The most hyperparameters; ties go to the most trials.
        sweep = max(sweeps, key=lambda name: (len(reader.search(name).space.root), sweeps[name]))
        shots = list(shots_of(reader, sweep))
    with chromium() as browser:
        with dashboard(runs) as address:
            for shot in shots:
                show(browser, address, shot, folder)
        store = sqlite_url((runs / "mlflow.db").resolve())
        with TemporaryDirectory() as away, MlflowServer(Path(away), store=store) as server:
            show_comparison(browser, server.url, sweep, folder / "mlflow.png")


def shots_of(reader: Leaderboard, sweep: str) -> Iterator[Shot]:
    """Yield the views of a leaderboard to capture."""
    rows = [row for row in reader.rows(ranked=False) if row.scores]
    best = reader.sweep(sweep).best
    yield Shot("leaderboard", "")
    yield Shot("sweep", f"sweeps/{quote(sweep)}")
    yield Shot("search", f"sweeps/{quote(sweep)}", "h2:has(+ #hyperparameters)")
    yield Shot("dark", f"sweeps/{quote(sweep)}", dark=True)
    yield Shot("phone", f"sweeps/{quote(sweep)}", size=PHONE)
    yield Shot("geometry", "geometry", "#numbers")
    if best is not None:
        yield Shot("trial", f"trials/{best.key}")
    if len(rows) > 1:
        yield Shot(
            "compare", "compare?" + urlencode({"rows": f"{rows[1].method},{rows[0].method}"})
        )


def show(browser: "Browser", address: str, shot: Shot, folder: Path) -> None:
    """Capture one view of the page."""
    page = browser.new_page(viewport=shot.size, color_scheme="dark" if shot.dark else "light")
    page.goto(address + shot.view)
    settled(page).locator(shot.top).first.evaluate("it => it.scrollIntoView()")
    shoot(page, folder / f"{shot.name}.png")


def show_comparison(browser: "Browser", address: str, sweep: str, file: Path) -> None:
    """Capture MLflow's own comparison of the first trials of the search."""
    client = MlflowClient(address)
    experiment = client.get_experiment_by_name("cse")
    first = client.search_runs(
        [experiment.experiment_id],
        f"tags.sweep = '{sweep}' and tags.role = 'search' and attributes.status = 'FINISHED'",
        max_results=COMPARED,
        order_by=["attributes.start_time ASC"],
    )
    page = browser.new_page(viewport=SIZE)
    link = comparison_link([experiment.experiment_id], [run.info.run_id for run in first])
    page.goto(f"{address}/{link}")
    page.locator(".js-plotly-plot svg.main-svg").first.wait_for(timeout=60_000)
    page.get_by_role("button", name="Close").click()  # of MLflow's assistant
    shoot(page, file)


def shoot(page: "Page", file: Path) -> None:
    """Write the visible part of a page to a file, and close the page."""
    page.screenshot(path=file, animations="disabled")
    page.close()
    click.echo(file)


if __name__ == "__main__":
    main()
