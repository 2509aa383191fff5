"""Measure the load of 64 busy workers, and of a trial, on the driver: `make bench-store`.

Each worker reports 20 metrics every 50 ms. The driver records them as in a sweep: into the journal,
its history, and by a thread into a leaderboard on SQLite, then on PostgreSQL where
`CSE_TEST_POSTGRES` names an empty server. Then 600 trials without any work go through planner,
results and recorder.

    python benchmarks/store_load.py [--seconds 60] [--trials 600]
"""

import gc
import os
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from console import options, say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cse_platform" / "runner"))

import psutil
from conftest import Drive
from in_process import new_spec
from sqlalchemy import func, select
from sweep_events import emptied

from cse_methods.registry import get_method
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.stores.sql.tables import DevPointRecord
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.tracking.events import SweepStarted, TrialPoint, TrialStarted
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder

WORKERS, METRICS, EVERY = 64, 20, 0.05
MOST_P99, MOST_TRIAL_MEMORY = 5.0, 60.0
"""Targets: milliseconds of a report, and MB for 1,000 trials."""
CATCH_UP = 600.0
"""The most seconds that a store may need after the last report."""
MB = 1e6
PROCESS = psutil.Process()


@dataclass(frozen=True)
class Load:
    """The results of one store, and its cost for the driver."""

    store: str
    reports: int
    stored: int
    p50: float
    p99: float
    most: float
    late: float
    behind: int
    catch_up: float
    early_mb: float
    late_mb: float


def main() -> None:
    """Print the results with their targets."""
    asked = arguments()
    say(f"{'':<57}{'measured':>10} {'':<4}{'target':>6}")
    with tempfile.TemporaryDirectory() as folder:
        stores = {"SQLite": f"sqlite:///{folder}/leaderboard.db"}
        if server := os.environ.get("CSE_TEST_POSTGRES"):
            stores["PostgreSQL"] = emptied(server)
        for name, url in stores.items():
            with open_store(url) as board:
                tell(load(name, board, Path(folder) / name, seconds=asked.seconds))
        with open_store(f"sqlite:///{folder}/trials.db") as board:
            grown = trial_memory(board, Path(folder) / "sweep", trials=asked.trials)
    tell_row("driver", "memory for 1,000 trials without work", grown, MOST_TRIAL_MEMORY, "MB")


def load(name: str, board: Store, folder: Path, *, seconds: float) -> Load:
    """Report for this many seconds, then wait for the store."""
    took, late, sizes = [], [], []
    history = History()
    recorder = Recorder(Journal(folder / "journal.jsonl"), [LeaderboardSink(board)])
    for event in first_events():
        recorder.record(event)
        history.apply(event)
    begin = time.perf_counter()
    for due, event in reports(seconds):
        if (wait := begin + due - time.perf_counter()) > 0:
            time.sleep(wait)
        called = time.perf_counter()
        recorder.record(event)
        history.apply(event)
        took.append(time.perf_counter() - called)
        late.append(called - begin - due)
        if len(took) % 1000 == 0:
            sizes.append(PROCESS.memory_info().rss / MB)
    [health] = recorder.health()
    done = time.perf_counter()
    recorder.close(CATCH_UP)
    with board.session() as session:
        stored = session.scalar(select(func.count()).select_from(DevPointRecord)) or 0
    edges = statistics.quantiles(took, n=100)
    ms = 1e3
    return Load(
        name, len(took), stored, edges[49] * ms, edges[98] * ms, max(took) * ms, max(late) * ms,
        health.behind, time.perf_counter() - done, sizes[len(sizes) // 4], sizes[-1],
    )  # fmt: skip


def first_events() -> Iterator[SweepStarted | TrialStarted]:
    """Yield the start of a sweep, and of one trial for each worker."""
    of = {"sweep": "load", "method": "simcse", "backbone": "mini"}
    yield SweepStarted(**of, spec={}, provenance={})
    dev = {"checkpoint": "stsb", "search": "stsb", "identity": "d", "source": "builtin"}
    for number in range(WORKERS):
        yield TrialStarted(
            **of, trial=f"t{number}", number=number, role="search", search_number=number, seed=0,
            revision=1, configuration=f"c{number}", values={"temperature": 0.05},
            searched=("temperature",), dev={**dev, "corpus": "builtin"},
        )  # fmt: skip


def reports(seconds: float) -> Iterator[tuple[float, TrialPoint]]:
    """Yield every report with its time; workers are spread evenly over each interval."""
    for step in range(round(seconds / EVERY)):
        for worker in range(WORKERS):
            metrics = {f"train/loss_{n}": step / (n + 1) for n in range(METRICS - 1)}
            yield (
                (step + worker / WORKERS) * EVERY,
                TrialPoint(
                    sweep="load", trial=f"t{worker}", step=step, value=0.5,
                    metrics={"dev/stsb_spearman": 0.5, **metrics},
                ),
            )  # fmt: skip


def tell(found: Load) -> None:
    """Print the rows of one store."""
    grown = found.late_mb - found.early_mb
    rows = [
        ("reports that are lost", found.reports - found.stored, 0, ""),
        ("a report, median", found.p50, None, "ms"),
        ("a report, 99 %", found.p99, MOST_P99, "ms"),
        ("a report, at most", found.most, None, "ms"),
        ("a report comes late by at most", found.late, None, "ms"),
        ("reports that the store is behind at the end", found.behind, None, ""),
        ("until it has them all", found.catch_up, None, "s"),
        ("memory from the first quarter to the end", grown, None, "MB"),
    ]
    for what, value, target, unit in rows:
        tell_row(found.store, what, value, target, unit)


def tell_row(store: str, what: str, value: float, target: float | None, unit: str) -> None:
    """Print a result, its target, and whether that is met."""
    verdict = "" if target is None else "met" if value <= target else "MISSED"
    wanted = "" if target is None else f"{target:g}"
    say(f"{store:<11}{what:<46}{value:>10.2f} {unit:<4}{wanted:>6}  {verdict}")


def trial_memory(board: Store, folder: Path, *, trials: int) -> float:
    """Measure the driver's growth in MB for 1,000 trials, from the hundredth trial on."""
    spec = new_spec(search={"trials": trials})
    method = get_method(spec.method)
    identity = Identity(spec, method, DevData(spec))
    folder.mkdir()
    drive = Drive(folder, spec, identity, board)
    sizes = []
    while drive.start() or drive.running:
        for key in list(drive.running):
            drive.advance(key)
        if len(drive.history.trials) in (100, trials) and not drive.running:
            sizes.append(memory())
    drive.close()
    return (sizes[-1] - sizes[0]) / (trials - 100) * 1000


def memory() -> float:
    """Return the MB of this process after a garbage collection."""
    gc.collect()
    return PROCESS.memory_info().rss / MB


def arguments() -> Namespace:
    """Parse the command line."""
    parser = options("store_load.py --seconds 10")
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="duration of the workers' reports",
    )
    parser.add_argument("--trials", type=int, default=600, help="number of trials without work")
    return parser.parse_args()


if __name__ == "__main__":
    main()
