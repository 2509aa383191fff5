"""Break sweeps at random moments, and look for lost or duplicate data: `make chaos`.

A sweep without pruner runs once undisturbed, and once with a fault after another; whenever its
command ends early, it is run again. Afterwards journal, SQL, Optuna and MLflow must hold the same
dev points, by configuration, seed and step, as the undisturbed sweep. A search that learns must
complete without duplicates. Commands that delete a sweep are killed as well.

    python chaos/chaos.py [--seed N] [--rounds 2] [--only NAME]
"""

import statistics
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))

from cheap import PAUSE
from deletions import kill_deletions
from faults import FAKETIME, OF_DISKS, OF_PROCESSES, OF_STORES, OF_UPKEEP, Fault, Scene, clock_jumps
from lost_stores import OF_LOST_STORES, run_other_lab
from processes import SECONDS
from servers import MlflowServer, Postgres, new_folder, say, small_disk
from store_contents import assert_stores_agree
from strangers import OF_STRANGERS
from sweeps import CHEAP, Sweep, write_sweep

from cse_platform.tracking.events import SweepFinished, TrialPoint

SEARCH = {"sampler": "random", "trials": 40, "seed": 6}
LEARNING = {
    "search": {"sampler": "tpe", "trials": 30, "seed": 6},
    "pruner": {"kind": "hyperband", "min_step": 2},
}
WATCHED = {"silent_for": "40s"}
"""Long enough for a trial to start on a busy machine."""
PACE = {PAUSE: "0.4"}
MOST_RESTARTS = 12
MEGABYTES = 96


@dataclass
class Found:
    """The results of all faults with the same name."""

    seconds: list[float] = field(default_factory=list)
    """Seconds from the fault until three more dev points, or the end of the sweep."""
    lost: int = 0
    doubled: int = 0


def main() -> None:
    """Run every campaign, print the table, and end with 1 if anything was lost or doubled."""
    asked = arguments()
    seed = asked.seed if asked.seed is not None else Random().randrange(10**6)
    say(f"seed {seed}")
    random, table = Random(seed), dict[str, Found]()
    for _ in range(asked.rounds):
        for name, run in CAMPAIGNS.items():
            if asked.only in (None, name):
                say(f"{name}:")
                run(random, table)
    print_table(table)
    if any(found.lost or found.doubled for found in table.values()):
        raise SystemExit(1)


def processes(random: Random, table: dict[str, Found]) -> None:
    """Break processes of the sweep's own machine, with the embedded stores."""
    faults = [*OF_PROCESSES, *([clock_jumps] if Path(FAKETIME).exists() else [])]
    with scene(random, search=SEARCH, resources=WATCHED) as broken:
        campaign(broken, faults, table)


def stores(random: Random, table: dict[str, Found]) -> None:
    """Break PostgreSQL and an MLflow server."""
    with ExitStack() as servers:
        postgres = Postgres(new_folder() / "postgres")
        servers.callback(postgres.stop)
        mlflow = MlflowServer(new_folder() / "mlflow")
        servers.callback(mlflow.stop)
        urls = {"leaderboard": postgres.url("leaderboard"), "search": postgres.url("search")}
        with scene(random, search=SEARCH, stores=urls | {"mlflow": mlflow.url}) as broken:
            broken.postgres, broken.mlflow = postgres, mlflow
            campaign(broken, OF_STORES, table)


def disks(random: Random, table: dict[str, Found]) -> None:
    """Break a small disk that holds everything that a sweep writes."""
    folder = new_folder() / "disk"
    try:
        with small_disk(folder, MEGABYTES) as disk, scene(random, disk, search=SEARCH) as broken:
            broken.disk = disk
            campaign(broken, OF_DISKS, table)
    except PermissionError as refusal:
        say(f"  left out: {refusal}")


def upkeep(random: Random, table: dict[str, Found]) -> None:
    """Kill commands that rebuild and delete, and run them again.

    A sweep also goes on in copies of its runs folder.
    """
    with scene(random, search=SEARCH) as broken:
        campaign(broken, OF_UPKEEP, table)
    for seconds, wrong in kill_deletions(random):
        found = table.setdefault("delete killed", Found())
        found.seconds.append(seconds)
        found.lost += len(wrong)
        say(f"  delete killed: {seconds:.1f} s{''.join(f'; {what}' for what in wrong)}")


def strangers(random: Random, table: dict[str, Found]) -> None:
    """Hand commands runs folders and databases that a stranger has prepared."""
    with scene(random, search=SEARCH) as broken:
        campaign(broken, OF_STRANGERS, table)


def lost_stores(random: Random, table: dict[str, Found]) -> None:
    """Delete and replace each store, while the sweep runs and between starts."""
    run_other_lab()
    with scene(random, search={**SEARCH, "trials": 300}) as broken:
        campaign(broken, OF_LOST_STORES, table)


def learning(random: Random, table: dict[str, Found]) -> None:
    """Break a search by TPE with hyperband, which depends on timing: only duplicates count."""
    with scene(random, **LEARNING) as broken:
        campaign(broken, OF_PROCESSES[:5], table, undisturbed=None)


CAMPAIGNS = {
    "processes": processes,
    "stores": stores,
    "disks": disks,
    "upkeep": upkeep,
    "strangers": strangers,
    "lost_stores": lost_stores,
    "learning": learning,
}


@contextmanager
def scene(random: Random, folder: Path | None = None, **changes: Any) -> Iterator[Scene]:
    """Start a sweep, and kill it at the end of the context."""
    sweep = write_sweep(folder or new_folder(), CHEAP, **changes)
    sweep = replace(sweep, surroundings=PACE)
    broken = Scene(sweep, sweep.start(), random)
    try:
        yield broken
    finally:
        broken.process.kill()


def undisturbed_curves(sweep: Sweep) -> dict[tuple[str, int, int], dict[str, float]]:
    """Run the same sweep without faults, and return its dev points."""
    file = new_folder() / sweep.file.name
    file.write_text(sweep.file.read_text())
    calm = Sweep(file, file.parent / "runs", sweep.name)
    calm.change(stores={})
    ended = calm.run()
    if ended.returncode:
        raise SystemExit(f"the undisturbed sweep failed: {ended.stderr}")
    return calm.curves()


def campaign(
    broken: Scene,
    faults: Sequence[Fault],
    table: dict[str, Found],
    *,
    undisturbed: Any = undisturbed_curves,
) -> None:
    """Let each fault hit once, in random order, and count what is lost or doubled at the end."""
    names = []
    for fault in broken.random.sample(faults, len(faults)):
        name = fault.__name__.replace("_", " ")
        if not go_on(broken, points=broken.random.randint(1, 4)):
            say("  the sweep ended before all faults")
            break
        seconds = recovery(broken, fault)
        names.append(name)
        table.setdefault(name, Found()).seconds.append(seconds)
        say(f"  {name}: {seconds:.1f} s")
    go_on(broken, points=None)
    lost, doubled = losses(broken.sweep, undisturbed and undisturbed(broken.sweep))
    for name in names:
        table[name].lost += lost
        table[name].doubled += doubled


def recovery(broken: Scene, fault: Fault) -> float:
    """Measure the seconds from a fault until three more dev points, or the end of the sweep."""
    known, started = broken.points(), time.monotonic()
    fault(broken)
    go_on(broken, points=3, known=known)  # three, because one may have been on its way
    return time.monotonic() - started


def go_on(broken: Scene, *, points: int | None, known: int | None = None) -> bool:
    """Run the sweep until it has `points` more points. Returns False if it completed before.

    The command is started again if it ends before the sweep is complete.
    """
    known = broken.points() if known is None else known
    restarts, deadline = 0, time.monotonic() + SECONDS
    while points is None or broken.points() < known + points:
        if broken.process.poll() is not None:
            if complete(broken.sweep):
                return False
            said = broken.process.communicate()[1]
            restarts += 1
            if restarts > MOST_RESTARTS:
                raise SystemExit(f"the sweep does not go on: {said}")
            broken.restart()
        if time.monotonic() > deadline:
            raise SystemExit("the sweep hangs")
        time.sleep(0.1)
    return True


def complete(sweep: Sweep) -> bool:
    """Whether the journal says that the sweep is complete."""
    ends = [event for event in sweep.events() if isinstance(event, SweepFinished)]
    return bool(ends) and ends[-1].state == "COMPLETE"


def losses(sweep: Sweep, undisturbed: dict[Any, Any] | None) -> tuple[int, int]:
    """Count the dev points that are missing or different, and those that are doubled."""
    events = [event for event in sweep.events() if isinstance(event, TrialPoint)]
    counts = Counter((event.trial, event.step) for event in events)
    doubled = sum(count - 1 for count in counts.values())
    curves = sweep.curves()
    lost = sum(curves.get(place) != metrics for place, metrics in (undisturbed or {}).items())
    lost += len(curves.keys() - undisturbed.keys()) if undisturbed else 0
    try:
        assert_stores_agree(sweep)
    except AssertionError as difference:
        say(f"  the stores differ: {str(difference)[:2000]}")
        lost += 1
    return lost, doubled


def print_table(table: dict[str, Found]) -> None:
    """Print for each fault how often it hit, lost and doubled points, and seconds to recover."""
    width = max(map(len, table), default=5)
    say(f"\n{'fault':{width}}  times  lost  doubled  seconds to recover")
    for name, found in sorted(table.items()):
        middle, most = statistics.median(found.seconds), max(found.seconds)
        times = len(found.seconds)
        recovered = f"{middle:.0f}, at most {most:.0f}"
        say(f"{name:{width}}  {times:5}  {found.lost:4}  {found.doubled:7}  {recovered}")
    say(f"{sum(len(found.seconds) for found in table.values())} faults")


def arguments() -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(
        description=__doc__.partition("\n")[0] if __doc__ else None,
        epilog="Example: python chaos/chaos.py --seed 3 --only disks",
    )
    parser.add_argument(
        "--seed", type=int, help="seed of the moments and the order of faults (default: random)"
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="rounds through all faults (default: %(default)s)"
    )
    parser.add_argument("--only", choices=CAMPAIGNS, help="run only this group of faults")
    return parser.parse_args()


if __name__ == "__main__":
    main()
