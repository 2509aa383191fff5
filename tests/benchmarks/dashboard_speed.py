"""How long each view of the page takes to answer over a hundred thousand trials.

Launch: make bench-dashboard [BENCH="--trials 1000000"]
Fills a store as leaderboard_speed.py does: 100,000 trials take about 1.2 GiB and two minutes. Each
view is asked for once to warm up, then as often as --repeats says. Parts, which the browser fetches
once the page stands, are indented.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from big_leaderboard import TRIALS_A_SWEEP, fill
from flask.testing import FlaskClient
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, select

from cse_dashboards.page.address import (
    BoardAddress,
    CompareAddress,
    GeometryAddress,
    SweepAddress,
    SweepsAddress,
    TrialAddress,
)
from cse_dashboards.page.address_base import Address
from cse_dashboards.page.app import create_app
from cse_platform.leaderboard.store.opening import Store, open_store
from cse_platform.leaderboard.store.tables import GroupRecord, SweepRecord, TrialRecord

LIMIT = 2.0
"""Seconds that a page may take; parts may take longer."""


def views(board: Store) -> Iterator[tuple[Address, tuple[str, ...]]]:
    """Each with its parts."""
    with board.session() as session:
        dev = session.scalars(select(GroupRecord.dev_identity).order_by(GroupRecord.id)).first()
        sweep = session.scalars(select(SweepRecord.name).order_by(SweepRecord.id)).first()
        trial = session.scalars(select(TrialRecord.key).order_by(TrialRecord.id)).first()
    yield BoardAddress(), ("standing",)
    yield BoardAddress(backbone="bert-base", published=True, sort="avg_sts"), ("standing",)
    yield BoardAddress(every=True), ("standing",)
    yield BoardAddress(tag="paper-7"), ("standing",)
    yield SweepsAddress(), ("listed",)
    yield SweepAddress(name=str(sweep)), ("live", "best", "search", "hyperparameters", "pair")
    both = CompareAddress(a="rankcse", b="simcse", backbone="bert-base", identity=dev)
    yield both, ("differences", "curves")
    yield GeometryAddress(), ("numbers",)
    yield TrialAddress(key=str(trial)), ()


def seconds(client: FlaskClient, path: str, *, repeats: int) -> tuple[float, int]:
    """Median of warm requests, and how many bytes come."""
    size = 0
    taken = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        answer = client.get(path)
        taken.append(time.perf_counter() - start)
        if answer.status_code != 200:
            raise click.ClickException(f"{path} answers {answer.status_code}")
        size = len(answer.data)
    return statistics.median(taken[1:]), size


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--trials", default=100_000, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--store", help="A store that is filled already, e.g. sqlite:///FILE.")
def main(trials: int, repeats: int, store: str | None) -> None:
    """Fill a store and measure each view and its parts."""
    with tempfile.TemporaryDirectory(prefix="cse-dashboard-") as folder:
        url = store or f"sqlite:///{Path(folder) / 'leaderboard.db'}"
        with open_store(url) as board:
            if store is None:
                fill(create_engine(url), sweeps=trials // TRIALS_A_SWEEP)
            listed = list(views(board))
        measure(create_app(url).test_client(), listed, repeats=repeats)


def measure(
    client: FlaskClient, listed: list[tuple[Address, tuple[str, ...]]], *, repeats: int
) -> None:
    """Print a line a page and a part."""
    table = Table("view", "seconds", "kB", title=f"limit of a page: {LIMIT} s")
    for address, parts in listed:
        for place, path in enumerate(
            [address.link(), *(address.under(f"/parts/{p}") for p in parts)]
        ):
            taken, size = seconds(client, path, repeats=repeats)
            slow = " (too slow)" if not place and taken > LIMIT else ""
            table.add_row("  " * bool(place) + path, f"{taken:.2f}{slow}", f"{size / 1000:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
