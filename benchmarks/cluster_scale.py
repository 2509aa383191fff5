"""Measure the load of thousands of simultaneous trials on driver and stores: `make bench-scale`.

All trials run at once, without any training, through the real planner, sampler, results and
recorder, into journal, search store, leaderboard and MLflow: first on SQLite, then on PostgreSQL if
`CSE_TEST_POSTGRES` names a server. Each trial reports as fast as the driver accepts it, with a
checkpoint from the second report on, in storage with a delay for every request.

    python benchmarks/cluster_scale.py [--trials 2000] [--points 10] [--delay 30]
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console import options, say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cse_platform" / "runner"))

import optuna
import psutil
from conftest import Drive
from slow_storage import delayed
from sqlalchemy import URL, create_engine, make_url, text

from cse_methods.registry import get_method
from cse_platform.runner.report_messages import Report, checkpoint_location
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.sweep.spec import SweepSpec

SPACE = {
    "learning_rate": {"low": 1e-6, "high": 1e-3, "log": True},
    "temperature": {"low": 0.01, "high": 1.0, "log": True},
    "warmup_ratio": {"low": 0.0, "high": 0.5},
    "dropout": {"low": 0.0, "high": 0.3},
}
METRICS = {"dev/sickr_spearman", "dev/alignment", "dev/uniformity", "train/loss", "perf/seconds"}
CATCH_UP = 3600.0
"""The most seconds that the stores may need after the last event."""


@dataclass(frozen=True)
class Stores:
    """The stores that one run writes to, and how to measure them."""

    name: str
    urls: Mapping[str, str]
    """The URLs of `leaderboard`, `search` and `mlflow`."""
    size: Callable[[str], int]
    """Returns the size of a store in bytes."""
    connections: Callable[[], int]


def main() -> None:
    """Print the results for each kind of store."""
    parser = options("cluster_scale.py --trials 500")
    parser.add_argument("--trials", type=int, default=2000, help="number of trials")
    parser.add_argument("--points", type=int, default=10, help="dev points per trial")
    parser.add_argument(
        "--delay",
        type=float,
        default=30.0,
        help="delay of each request to the storage, in ms",
    )
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, delayed(asked.delay / 1e3):
        for stores in all_stores(Path(folder)):
            say(f"{stores.name}: {asked.trials} trials at once, {asked.points} dev points each")
            measure(stores, Path(folder) / stores.name, asked.trials, asked.points)


def all_stores(folder: Path) -> Iterator[Stores]:
    """Yield SQLite stores, and PostgreSQL stores if there is a server."""
    files = {name: folder / f"{name}.db" for name in ("leaderboard", "search", "mlflow")}
    urls = {name: f"sqlite:///{file}" for name, file in files.items()}
    yield Stores("SQLite", urls, lambda name: files[name].stat().st_size, lambda: 0)
    if server := os.environ.get("CSE_TEST_POSTGRES"):
        yield _postgres(make_url(server))


def _postgres(server: URL) -> Stores:
    engine = create_engine(server, isolation_level="AUTOCOMMIT")

    def ask(query: str) -> Any:
        with engine.connect() as connection:
            return connection.execute(text(query)).scalar_one()

    names = {name: f"scale_{name}" for name in ("leaderboard", "search", "mlflow")}
    with engine.connect() as connection:
        for name in names.values():
            connection.execute(text(f"DROP DATABASE IF EXISTS {name}"))
            connection.execute(text(f"CREATE DATABASE {name}"))
    return Stores(
        "PostgreSQL",
        {
            name: server.set(database=database).render_as_string(hide_password=False)
            for name, database in names.items()
        },
        lambda name: int(ask(f"SELECT pg_database_size('{names[name]}')")),
        lambda: int(ask("SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'scale_%'")),
    )


def measure(stores: Stores, folder: Path, trials: int, points: int) -> None:
    """Start all trials, let them report and end, and wait for the stores."""
    spec = SweepSpec.model_validate(
        {
            "sweep": "scale", "method": "simcse", "backbone": "mini", "corpus": "builtin",
            "data": "builtin", "space": SPACE,
            "search": {"sampler": "tpe", "trials": trials, "seed": 1},
        }
    )  # fmt: skip
    identity = Identity(spec, get_method(spec.method), DevData(spec))
    folder.mkdir()
    mirror = MLflowMirror(stores.urls["mlflow"], artifacts=folder / "artifacts")
    mirror.position("")  # creates MLflow's tables, whose size must not count
    with open_store(stores.urls["leaderboard"]) as board:
        drive = Drive(
            folder, spec, identity, board,
            capacity=trials, search=stores.urls["search"], sinks=[mirror],
        )  # fmt: skip
        before = {name: stores.size(name) for name in stores.urls}
        with closing(drive.lease):
            keys = _begun(drive, trials)
            began = time.perf_counter()
            for step in range(points):
                for place, key in enumerate(keys):
                    _report(drive, key, step, 0.3 + 0.4 * place / trials)
            _tell("a report", (time.perf_counter() - began) / (trials * points), "ms", 1e3)
            began = time.perf_counter()
            for key in keys:
                live = drive.state.live[key]
                live.model_problem = None
                drive.results.record_end(live)
            _tell("the end of a trial", (time.perf_counter() - began) / trials, "ms", 1e3)
            waiting = sum(1 for _ in (folder / "checkpoints").glob("*/*"))
            say(f"  checkpoints that wait for their deletion: {waiting}")
            behind = [f"{one.name} {one.behind}" for one in drive.recorder.health()]
            say(f"  events that stores are behind at the end: {', '.join(behind)}")
            connections = stores.connections()
            began = time.perf_counter()
            health = drive.recorder.close(CATCH_UP)
            assert not any(one.behind for one in health), health
            _tell("until they have them all", time.perf_counter() - began, "s")
    _tell("the journal, a trial", (folder / "journal.jsonl").stat().st_size / trials, "kB", 1e-3)
    for name in stores.urls:
        grown = stores.size(name) - before[name]
        _tell(f"{name}, a trial", grown / trials, "kB", 1e-3)
    _tell("connections", connections)
    _tell("memory of the driver", psutil.Process().memory_info().rss, "MB", 1e-6)


def _begun(drive: Drive, trials: int) -> list[str]:
    """Start all trials; the cost of a start grows with the number of running trials."""
    keys, told = [], {1, trials // 4, trials // 2, trials}
    began = time.perf_counter()
    while (plan := drive.planner.next()) is not None:
        keys.append(plan.key)
        if len(keys) in told:
            _tell(f"until {len(keys)} trials have begun", time.perf_counter() - began, "s")
    assert len(keys) == trials
    return keys


def _report(drive: Drive, key: str, step: int, value: float) -> None:
    metrics = dict.fromkeys(METRICS, value) | {"dev/stsb_spearman": value + step / 1000}
    sent = Report(attempt=key[:12], step=step, metrics=metrics, checkpoint_step=step or None)
    if step:
        folder = checkpoint_location(drive.state.folders.checkpoints, sent.attempt, step)
        Path(folder, "best").mkdir(parents=True)
    drive.results.receive(drive.state.live[key], sent)


def _tell(what: str, value: float, unit: str = "", factor: float = 1.0) -> None:
    say(f"  {what:<32}{factor * value:>10.2f} {unit}")


if __name__ == "__main__":
    main()
