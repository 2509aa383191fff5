"""Measure how fast each page of the dashboard answers with 100,000 trials, and how much it sends.

Launch: make bench-dashboard [BENCH="--trials 1000000"]
Fills a store as leaderboard_speed.py does, which takes about 1.2 GiB and two minutes; one further
sweep contains all trials. Each page is requested once to warm up, then `--repeats` times; parts,
which the browser loads when they come into view, are indented. Then Chromium, if it is installed,
opens each page and clicks on the first column head that sorts.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from big_leaderboard import TRIALS_A_SWEEP, fill, gather
from dashboard_browser import browse
from flask import Flask
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, select

from cse_dashboards.page.address import (
    Address,
    BoardAddress,
    CompareAddress,
    GeometryAddress,
    SweepAddress,
    SweepsAddress,
    TrialAddress,
)
from cse_dashboards.page.app import create_app
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import GroupRecord, TrialRecord

LIMIT = 0.5
"""The most seconds that a page may take; its parts may take longer."""
WHERE = "learning_rate >= 2e-5 and learning_rate <= 3e-5"
ALL = "all"
"""The name of the sweep that contains every trial."""


def views(board: Store) -> Iterator[tuple[Address, tuple[str, ...]]]:
    """Yield each page with its parts."""
    with board.session() as session:
        dev = session.scalars(select(GroupRecord.dev_identity).order_by(GroupRecord.id)).first()
        trial = session.scalars(select(TrialRecord.key).order_by(TrialRecord.id)).first()
    yield BoardAddress(), ("standing",)
    yield BoardAddress(backbone="bert-base", published=True, sort="avg_sts"), ("standing",)
    yield BoardAddress(every=True), ("standing",)
    yield BoardAddress(tag="paper-7"), ("standing",)
    yield SweepsAddress(), ("listed",)
    parts = ("live", "trials", "curves", "best", "search", "hyperparameters", "pair")
    yield SweepAddress(name=ALL), parts
    yield SweepAddress(name=ALL, where=WHERE, sort="-learning_rate"), parts
    both = CompareAddress(rows=("rankcse", "simcse"), backbone="bert-base", identity=dev)
    yield both, ("differences", "curves")
    yield GeometryAddress(), ("numbers",)
    yield TrialAddress(key=str(trial)), ()


def seconds(app: Flask, path: str, *, repeats: int) -> tuple[float, float, float, int]:
    """Measure a path: first request, median of warm ones, median CPU time, and bytes sent."""
    client, size, taken, busy = app.test_client(), 0, [], []
    for _ in range(repeats + 1):
        start, cpu = time.perf_counter(), time.process_time()
        answer = client.get(path, headers={"Accept-Encoding": "gzip", "X-Part": "1"})
        taken.append(time.perf_counter() - start)
        busy.append(time.process_time() - cpu)
        if answer.status_code != 200:
            raise click.ClickException(f"{path} answers {answer.status_code}")
        size = len(answer.data)
    return taken[0], statistics.median(taken[1:]), statistics.median(busy[1:]), size


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--trials", default=100_000, show_default=True, help="Trials in the store.")
@click.option("--repeats", default=3, show_default=True, help="Measured requests per page.")
@click.option("--store", help="Use this filled store, e.g. sqlite:///FILE.")
def main(trials: int, repeats: int, store: str | None) -> None:
    """Fill a store, and measure how fast each page and its parts answer.

    \b
    Example:
        python benchmarks/dashboard_speed.py --trials 10000
    """
    with tempfile.TemporaryDirectory(prefix="cse-dashboard-") as folder:
        url = store or f"sqlite:///{Path(folder) / 'leaderboard.db'}"
        with open_store(url) as board:
            if store is None:
                fill(create_engine(url), sweeps=trials // TRIALS_A_SWEEP)
                gather(create_engine(url), name=ALL)
            listed = list(views(board))
        app = create_app(url)
        measure(app, listed, repeats=repeats)
        browse(app, [address.link() for address, _ in listed])


def measure(app: Flask, listed: list[tuple[Address, tuple[str, ...]]], *, repeats: int) -> None:
    """Print a line for each page and part."""
    heads = ("view", "first, s", "then, s", "CPU, s", "kB")
    table = Table(*heads, title=f"limit of a page: {LIMIT} s")
    for address, parts in listed:
        for place, path in enumerate(
            [address.link(), *(address.part_link(f"/parts/{p}") for p in parts)]
        ):
            first, then, busy, size = seconds(app, path, repeats=repeats)
            slow = " (too slow)" if not place and then > LIMIT else ""
            line = (f"{first:.2f}", f"{then:.2f}{slow}", f"{busy:.2f}", f"{size / 1000:.0f}")
            table.add_row("  " * bool(place) + path, *line)
    Console().print(table)


if __name__ == "__main__":
    main()
