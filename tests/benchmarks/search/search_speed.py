"""How soon searches find what is best, in simulated time: `make bench-search`.

Each row searches recorded and analytic surfaces (`surfaces.py`), 50 times, with 1 and 8 trials at
once. At growing times it is asked for its choice: the best complete trial, or the winner of a race
over seeds, whose trials count. Its time is the first from which on every choice has a mean over
seeds within 0.3 points of the best configuration's. The unit is a whole trial.

    python tests/benchmarks/search/search_speed.py [--repetitions 50] [--surface NAME] [--json FILE]
"""

import json
import math
import os
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import yaml
from races import raced
from simulation import Ended, Strategy, search
from surfaces import RecordedSurface, Surface, analytic_surfaces, best_mean

from cse_platform.search.curve import Rule

HERE = Path(__file__).parent
CLOSE = 0.003
"""A choice is right if its mean over seeds is so near to the best configuration's."""
ASKED_AT = (3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 85, 113, 150)
"""When a search is asked for its choice, in whole trials."""
SLOTS = (1, 8)
SEEDS = range(1000, 1005)
"""Further seeds of a race."""
ROWS = {
    "random": Strategy("random"),
    "TPE": Strategy("tpe"),
    "TPE, median": Strategy("tpe", pruner=optuna.pruners.MedianPruner()),
    "TPE, hyperband": Strategy("tpe", pruner=optuna.pruners.HyperbandPruner(1, 8)),
    "GP": Strategy("gp"),
    "ours": Strategy("tpe", curve=Rule(top=3), start_points=True, race=3),
}


def surfaces() -> Iterator[Surface]:
    """All of them, the recorded ones first."""
    stages = yaml.safe_load((HERE / "surface.yaml").read_text("utf-8"))["stages"]
    for stage in stages:
        file = HERE / f"{stage['method']}.csv.gz"
        if file.exists():
            yield RecordedSurface(stage["method"], file, stage["space"])
    yield from analytic_surfaces()


def time_needed(surface: Surface, row: str, seed: int, *, best: float, slots: int) -> float:
    """When one search has its answer for good; infinite if it never has."""
    strategy = ROWS[row]
    ended = search(surface, strategy, seed=seed, slots=slots, until=ASKED_AT[-1])
    answers = []
    for asked in ASKED_AT:
        complete = [one for one in ended if one.complete and one.time <= asked]
        if complete:
            answers.append(_answer(surface, complete, strategy, asked, slots))
    right = math.inf
    for time, configuration in reversed(answers):
        if surface.mean([configuration])[0] < best - CLOSE:
            return right
        right = time
    return right


def _answer(
    surface: Surface, complete: list[Ended], strategy: Strategy, asked: float, slots: int
) -> tuple[float, Mapping[str, Any]]:
    """When a search that is asked at that time has its choice, and the choice."""
    best = sorted(complete, key=lambda one: one.score, reverse=True)
    if not strategy.race:
        return asked, best[0].assignment
    chosen, took = raced(surface, best[: strategy.race], seeds=SEEDS, slots=slots)
    return asked + took, chosen


def main() -> None:
    """Print the table, and write it where `--json` says."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--surface", action="append", help="only this one; can be repeated")
    parser.add_argument("--row", action="append", choices=ROWS, help="only this one")
    parser.add_argument("--slots", action="append", type=int, help="trials at once; 1 and 8")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = []
    with ProcessPoolExecutor(os.cpu_count(), initializer=_quiet) as pool:
        for surface in surfaces():
            if asked.surface and surface.name not in asked.surface:
                continue
            best, share = best_mean(surface)
            say(f"{surface.name}: best mean {100 * best:.2f}, {share:.1%} within 0.3 points")
            for slots, row in product(asked.slots or SLOTS, asked.row or ROWS):
                call = partial(time_needed, surface, row, best=best, slots=slots)
                times = list(pool.map(call, range(asked.repetitions)))
                low, middle, high = np.percentile(times, [25, 50, 75], method="lower")
                told = "  ".join(_text(time) for time in (middle, low, high))
                say(f"  {slots} at once  {row:15s}  {told}")
                found.append({"surface": surface.name, "row": row, "slots": slots, "times": times})
    if asked.json:
        asked.json.write_text(json.dumps(found))


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _text(time: float) -> str:
    return f"{time:5.1f}" if math.isfinite(time) else f" > {ASKED_AT[-1]}"


def _quiet() -> None:
    warnings.simplefilter("ignore")


if __name__ == "__main__":
    main()
