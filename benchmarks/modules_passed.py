"""Print the modules that a query of the leaderboard, each page view, a dev point on its way to SQL
and a sweep file on its way to its first trial pass: the path of a reader.

Launch: make bench-modules
A module is passed if one of its functions is called; templates and what an import calls do not
count. Fills a store with 1,000 trials, and asks each question once before it is traced. Of a sweep,
the driver's main thread is traced until the journal has the start of the first trial.
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
from cse_platform.cli.sweep import main as sweep
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import EVENT, TrialStarted
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder

PACKAGES = ("cse_platform", "cse_dashboards")
SWEEP = {
    "sweep": "traced", "method": "simcse", "backbone": "mini", "corpus": "builtin",
    "data": "builtin", "fixed": {"max_steps": 2, "eval_steps": 2, "batch_size": 8},
    "space": {"temperature": {"low": 0.01, "high": 1.0, "log": True}}, "search": {"trials": 1},
}  # fmt: skip


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
            records = frame.f_code is Recorder.record.__code__
            if records and isinstance(frame.f_locals["event"], TrialStarted):
                sys.setprofile(None)

    sys.setprofile(trace)
    try:
        yield passed
    finally:
        sys.setprofile(None)


def show(what: str, ask: Callable[[], object], *, again: bool = True) -> None:
    """Ask, and print the modules that are passed, the second time if it is asked again."""
    if again:
        ask()
    with tracing() as passed:
        ask()
    click.echo(f"{what}: {len(passed)} modules\n  {' '.join(sorted(passed))}")


def query(url: str) -> None:
    with redirect_stdout(StringIO()):
        leaderboard(["--backbone", "bert-base", "--store", url], standalone_mode=False)


def run_sweep(folder: Path) -> None:
    file = folder / "sweep.yaml"
    file.write_text(json.dumps(SWEEP))  # JSON is YAML
    with redirect_stdout(StringIO()):
        sweep([str(file), "--runs", str(folder / "runs")], standalone_mode=False)


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
    """Fill a store, and trace a query, every page, a dev point and a sweep."""
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
        show("a sweep file to its first trial", partial(run_sweep, Path(folder)), again=False)


if __name__ == "__main__":
    main()
