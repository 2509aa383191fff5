"""Measure what `cse-leaderboard rebuild` costs: `make bench-rebuild`.

Writes the journals of sweeps of 200 trials with 20 dev points each, and makes a leaderboard of
them on SQLite, and on PostgreSQL where `CSE_TEST_POSTGRES` names an empty server.

    python benchmarks/rebuild_speed.py [--trials 100000]
"""

import json
import os
import resource
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from console import say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))

from big_leaderboard import DAY_ONE, METHODS, POINTS, SPEC, TRIALS_A_SWEEP
from sweep_events import emptied

from cse_platform.gc_settings import collect_rarely
from cse_platform.stores.rebuild import rebuild
from cse_platform.tracking.events import SweepFinished, SweepStarted, TrialFinished, TrialStarted
from cse_platform.tracking.journal import JOURNAL_VERSION

MOST_MS = 3.0
"""Target: milliseconds of CPU for a trial, of all processes together, on a calm machine."""
LOOP_SECONDS = 0.75
"""Seconds of `loop_seconds` on that machine."""


def main() -> None:
    """Print the costs, as they are here and in terms of the calm machine, with their target."""
    parser = ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--trials", type=int, default=100_000)
    trials = parser.parse_args().trials
    collect_rarely()  # as every command does
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        for number in range(-(-trials // TRIALS_A_SWEEP)):
            write_journal(runs, number)
        urls = {"SQLite": f"sqlite:///{runs}/leaderboard.db"}
        if server := os.environ.get("CSE_TEST_POSTGRES"):
            urls["PostgreSQL"] = emptied(server)
        for name, url in urls.items():
            loop, used, start = loop_seconds(), cpu_seconds(), time.perf_counter()
            counts = rebuild(url, [runs]).after
            took, spent = time.perf_counter() - start, cpu_seconds() - used
            loop = (loop + loop_seconds()) / 2
            each = 1000 * spent / counts["trials"]
            say(
                f"{name}: {counts['trials']} trials in {took:.0f} s; {each:.2f} ms of CPU a trial, "
                f"{each * LOOP_SECONDS / loop:.2f} ms on the calm machine (target {MOST_MS:g}); "
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most"
            )


def loop_seconds() -> float:
    """Measure the CPU time of a simple loop, which tells how fast this machine is now."""
    start, total = time.process_time(), 0
    for number in range(10**7):
        total += number
    return time.process_time() - start


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def write_journal(runs: Path, number: int) -> None:
    """Write the journal of a complete sweep."""
    path = runs / "sweeps" / f"sweep-{number}" / "journal.jsonl"
    path.parent.mkdir(parents=True)
    identity = str(UUID(int=number))
    with path.open("w") as file:
        file.write(json.dumps({"journal": identity, "version": JOURNAL_VERSION}) + "\n")
        for event in sweep_events(number, path.parent.name):
            file.write(json.dumps(event, separators=(",", ":")) + "\n")


def sweep_events(number: int, sweep: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a sweep as JSON, as they come from eight workers."""
    dice, method = Random(number), METHODS[number % len(METHODS)]
    clock = DAY_ONE + timedelta(hours=number)
    first = SweepStarted(
        time=clock, sweep=sweep, method=method, backbone="bert-base", spec=SPEC, provenance={}
    )
    yield first.model_dump(mode="json")
    lives = [trial_events(dice, sweep, method, trial) for trial in range(TRIALS_A_SWEEP)]
    for start in range(0, TRIALS_A_SWEEP, 8):
        for together in zip(*lives[start : start + 8], strict=True):
            for event in together:
                clock += timedelta(seconds=1)
                yield {**event, "time": clock.isoformat()}
    yield SweepFinished(time=clock, sweep=sweep, state="COMPLETE").model_dump(mode="json")


def trial_events(dice: Random, sweep: str, method: str, number: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a trial as JSON."""
    values = {"learning_rate": dice.random(), "temperature": dice.random(), "batch_size": 64}
    hashed = sha256(f"{sweep} {number}".encode()).hexdigest()
    dev = {"checkpoint": "stsb", "search": "stsb", "source": "builtin", "corpus": "wiki1m"}
    yield TrialStarted(
        sweep=sweep, trial=hashed, number=number, search_number=number, role="search", seed=42,
        method=method, revision=1, backbone="bert-base", configuration=hashed[:32], values=values,
        searched=("learning_rate", "temperature"), dev={**dev, "identity": "dev-1"},
    ).model_dump(mode="json")  # fmt: skip
    metrics = {}
    for step in range(POINTS):
        names = ("dev/stsb_spearman", "dev/stsb_alignment", "dev/stsb_uniformity", "train/loss",
                 "train/loss_contrastive", "train/learning_rate", "perf/sentences_per_second",
                 "perf/seconds")  # fmt: skip
        metrics = {name: dice.random() for name in names}
        yield {
            "kind": "trial_point", "sweep": sweep, "trial": hashed, "step": 125 * step,
            "value": metrics["dev/stsb_spearman"], "metrics": metrics, "checkpoint": None,
        }  # fmt: skip
    yield TrialFinished(
        sweep=sweep, trial=hashed, state="COMPLETE", best_step=125 * (POINTS - 1),
        best_value=metrics["dev/stsb_spearman"], best_metrics=metrics, wall_seconds=1800.0,
        gpus=0.5, provenance={"host": f"node-{number % 8}", "gpu": "A100"},
    ).model_dump(mode="json")  # fmt: skip


if __name__ == "__main__":
    main()
