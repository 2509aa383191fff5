"""Print the modules that a query of the leaderboard, each page view and a dev point on its way from
the journal to SQL pass: the path of a reader.

Launch: make bench-modules
A module is passed if one of its functions is called; templates and what an import calls do not
count. Fills a store with 1,000 trials, and asks each question once before it is traced.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from io import StringIO
from itertools import islice
from pathlib import Path
from types import FrameType

import click
from big_leaderboard import fill, gather
from dashboard_speed import ALL, views
from rebuild_speed import sweep_events
from sqlalchemy import create_engine

from cse_dashboards.page.app import create_app
from cse_platform.cli.leaderboard import main as leaderboard
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import EVENT
from cse_platform.tracking.journal import Journal

PACKAGES = ("cse_platform", "cse_dashboards")


@contextmanager
def tracing() -> Iterator[set[str]]:
    """Collect the modules of the packages whose functions this thread calls."""
    passed, importing = set[str](), 0

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal importing
        if frame.f_code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing:
            name = str(frame.f_globals.get("__name__", ""))
            if name.partition(".")[0] in PACKAGES:
                passed.add(name)

    sys.setprofile(trace)
    try:
        yield passed
    finally:
        sys.setprofile(None)


def show(what: str, ask: Callable[[], object]) -> None:
    """Ask, and print the modules that the second time passes."""
    ask()
    with tracing() as passed:
        ask()
    click.echo(f"{what}: {len(passed)} modules\n  {' '.join(sorted(passed))}")


def query(url: str) -> None:
    with redirect_stdout(StringIO()):
        leaderboard(["--backbone", "bert-base", "--store", url], standalone_mode=False)


def make_point_writer(folder: Path) -> Callable[[], None]:
    """Return a function that writes the next dev point of a sweep to its SQL store."""
    store = open_store(f"sqlite:///{folder / 'points.db'}")
    journal = Journal(folder / "journal.jsonl")
    sink = LeaderboardSink(store, Lease(store, "sweep", journal))
    told = [EVENT.validate_json(json.dumps(each)) for each in islice(sweep_events(0, "sweep"), 17)]
    entries = enumerate(told, start=1)
    sink.apply(journal.id, list(islice(entries, 9)))  # the starts of the sweep and of eight trials
    return lambda: sink.apply(journal.id, [next(entries)])


def main() -> None:
    """Fill a store, and trace a query, every page and a dev point."""
    with tempfile.TemporaryDirectory(prefix="cse-modules-") as folder:
        url = f"sqlite:///{Path(folder) / 'leaderboard.db'}"
        with open_store(url) as board:
            fill(create_engine(url), sweeps=5)
            gather(create_engine(url), name=ALL)
            listed = list(views(board))
        show("cse-leaderboard --backbone bert-base", lambda: query(url))
        client = create_app(url).test_client()
        for address, _ in listed:
            show(address.link(), partial(client.get, address.link()))
        show("a dev point, from the journal to SQL", make_point_writer(Path(folder)))


if __name__ == "__main__":
    main()
