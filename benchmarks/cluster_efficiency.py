"""Measure how well a sweep uses 1, 2 and 4 nodes: `make bench-cluster`.

Trials only sleep, on Ray nodes of this machine. The efficiency is the time in which the trials
would fill all slots without gaps, divided by the time from the first trial's start to the last
trial's end. A node has two slots, and each slot gets four trials.

    python benchmarks/cluster_efficiency.py [--nodes 1 2 4] [--seconds 20]
"""

import sys
import tempfile
from pathlib import Path

from console import options, say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))

from cheap import PAUSE, STEPS
from ray_nodes import ray_nodes
from sweeps import CHEAP, Sweep, write_sweep

from cse_platform.tracking.events import SweepStarted, TrialFinished, TrialPoint, TrialStarted

SLOTS, ROUNDS = 2, 4


def main() -> None:
    """Print a line for each number of nodes."""
    parser = options("cluster_efficiency.py --nodes 1 2")
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=[1, 2, 4],
        help="numbers of nodes to measure",
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of a trial")
    asked = parser.parse_args()
    say("nodes  trials  efficiency  every node trains after")
    for nodes in asked.nodes:
        with tempfile.TemporaryDirectory() as folder:
            sweep = swept(Path(folder), nodes=nodes, seconds=asked.seconds)
            began, ended, spread = times(sweep, slots=SLOTS * nodes)
        efficiency = ROUNDS * asked.seconds / (ended - began)
        say(f"{nodes:>5}  {SLOTS * ROUNDS * nodes:>6}  {efficiency:>10.2f}  {spread:>19.1f} s")


def swept(folder: Path, *, nodes: int, seconds: float) -> Sweep:
    """Run a sweep on this many nodes."""
    search = {"sampler": "random", "trials": SLOTS * ROUNDS * nodes, "seed": 6}
    space = {"temperature": {"low": 0.01, "high": 0.5, "log": True}}
    sweep = write_sweep(folder, CHEAP, search=search, space=space)
    with ray_nodes({PAUSE: str(seconds / len(STEPS))}) as cluster:
        for number in range(nodes):
            cluster.add(str(number), cpus=SLOTS)
        done = sweep.run("--address", cluster.address)
    assert done.returncode == 0, done.stderr
    return sweep


def times(sweep: Sweep, *, slots: int) -> tuple[float, float, float]:
    """Return the times of the first start and the last end, in seconds since the epoch, and the
    seconds from the sweep's start until every slot has had a dev point.
    """
    events = sweep.events()
    sweep_began = next(e.time for e in events if isinstance(e, SweepStarted)).timestamp()
    starts = [e.time.timestamp() for e in events if isinstance(e, TrialStarted)]
    ends = [e.time.timestamp() for e in events if isinstance(e, TrialFinished)]
    first = [e.time.timestamp() for e in events if isinstance(e, TrialPoint) and e.step == 0]
    return min(starts), max(ends), first[slots - 1] - sweep_began


if __name__ == "__main__":
    main()
