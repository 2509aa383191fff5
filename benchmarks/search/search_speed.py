"""Measure how fast searches find the best configuration, in simulated time: `make bench-search`.

Each row searches recorded and analytic surfaces (`surfaces.py`) 16 times, with 1 and 8 simultaneous
trials, which takes about 80 minutes on two cores. At several times it makes its choice: the best
complete trial, or the best mean if it gives further seeds, or the winner of a race over seeds,
whose trials count as work. Printed are the regret after the work of 40 whole trials, by which the
choice's mean over seeds is below the best configuration's, and how much work it took until the
regret stayed within 0.3 points and within 1 point.

All searches but the random one begin at the same start point. With `--records FILE` each search is
written to the file when it ends, and recorded searches are not repeated, so the same command
resumes an interrupted run. The file is only valid for the code that wrote it.
    python benchmarks/search/search_speed.py [--repetitions 16] [--surface NAME] [--records FILE]
"""

import json
import math
import os
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Container, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import optuna
import yaml
from races import raced
from simulation import Ended, Strategy, search, seeds_of
from surfaces import RecordedSurface, Surface, analytic_surfaces, best_mean

HERE = Path(__file__).parent
CLOSE = (0.003, 0.01)
"""The regrets within which a choice counts as right."""
ASKED_AT = (5, 8, 11, 15, 20, 25, 30, 35, 40, 50, 60, 75, 100)
"""The times, in the work of whole trials, at which a search makes its choice."""
TOLD_AT = 40
"""The time at which the regret is printed."""
SLOTS = (1, 8)
SEEDS = range(1000, 1005)
"""The further seeds of a race."""
STARTS = {
    "rankcse": {
        "learning_rate": 3e-5,
        "tau2": 0.025,
        "tau3": 0.0125,
        "gamma": 1.0,
        "contrastive_weight": 1.0,
        "dropout": 0.1,
    },
    "simcse": {
        "learning_rate": 3e-5,
        "temperature": 0.05,
        "dropout": 0.1,
        "warmup_ratio": 0.0,
        "pooler": "cls",
    },
}
"""The papers' settings for BERT-base: table 9 and appendix A of RankCSE, the scripts of SimCSE."""
ROWS = {
    "random": Strategy("random"),
    "TPE": Strategy("tpe", start_points=True),
    "TPE, median": Strategy("tpe", pruner=optuna.pruners.MedianPruner(), start_points=True),
    "TPE, hyperband": Strategy(
        "tpe", pruner=optuna.pruners.HyperbandPruner(1, 8), start_points=True
    ),
    "GP": Strategy("gp", optunas_gp=True, start_points=True),
    "ours": Strategy("auto", curve=True, start_points=True),
    "TPE, repeats": Strategy("tpe", start_points=True, repeats=True),
    "ours, repeats": Strategy("auto", curve=True, start_points=True, repeats=True),
    "ours, race": Strategy("auto", curve=True, start_points=True, race=3),
}


NAMES = (*STARTS, *(surface.name for surface in analytic_surfaces()))


def surfaces(names: Container[str]) -> Iterator[Surface]:
    """Yield the surfaces with these names, recorded ones first."""
    stages = yaml.safe_load((HERE / "surface.yaml").read_text("utf-8"))["stages"]
    spaces = {stage["sweep"]: stage.get("space") for stage in stages}
    for name, start in STARTS.items():
        if name in names:
            space = spaces[f"surface-{name}"]
            yield RecordedSurface(name, HERE / f"{name}.csv.gz", space=space, start=start)
    yield from (surface for surface in analytic_surfaces() if surface.name in names)


@dataclass(frozen=True)
class Choice:
    """The configuration that a search chooses at some time."""

    time: float
    """The time of the choice, including a race."""
    regret: float
    """How far its mean over seeds is below the best configuration's, as a fraction."""


def choices(surface: Surface, seed: int, *, best: float, slots: int) -> dict[str, list[Choice]]:
    """Return the choices of one search for each row, in the order of `ASKED_AT`."""
    searches: dict[Strategy, list[Ended]] = {}
    found: dict[str, list[Choice]] = {row: [] for row in ROWS}
    for row, strategy in ROWS.items():
        unraced = replace(strategy, race=0)
        if unraced not in searches:
            until = ASKED_AT[-1]
            searches[unraced] = search(surface, unraced, seed=seed, slots=slots, until=until)
        for asked in ASKED_AT:
            complete = [one for one in searches[unraced] if one.complete and one.time <= asked]
            if complete:
                time, configuration = _answer(surface, complete, strategy, asked)
                below = best - float(surface.mean([configuration])[0])
                found[row].append(Choice(time, below))
    return found


def time_needed(found: list[Choice], close: float) -> float:
    """Return the time from which all choices are right; infinite if there is none."""
    right = math.inf
    for choice in reversed(found):
        if choice.regret > close:
            return right
        right = choice.time
    return right


def regret(found: list[Choice]) -> float:
    """Return the regret of the last choice up to TOLD_AT, or of the first if a race is later."""
    return next((one.regret for one in reversed(found) if one.time <= TOLD_AT), found[0].regret)


def _answer(
    surface: Surface, complete: list[Ended], strategy: Strategy, asked: float
) -> tuple[float, Mapping[str, Any]]:
    """Return the time at which a search has made its choice, and the choice."""
    if strategy.repeats:
        several = seeds_of(complete).values()
        highest = max(several, key=lambda seeds: fmean(one.score for one in seeds))
        return asked, highest[0].assignment
    best = sorted(complete, key=lambda one: one.score, reverse=True)
    if not strategy.race:
        return asked, best[0].assignment
    chosen, took = raced(surface, best[: strategy.race], seeds=SEEDS)
    return asked + took, chosen


class Records:
    """The choices of ended searches, in a file of JSON lines or only in memory."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_text("utf-8").splitlines() if file and file.exists() else []
        self._known = {tuple(key): found for key, found in map(json.loads, lines)}

    def missing(self, surface: str, slots: int, repetitions: int) -> list[int]:
        """List the seeds whose searches are not recorded."""
        return [seed for seed in range(repetitions) if (surface, slots, seed) not in self._known]

    def add(self, surface: str, slots: int, seed: int, found: dict[str, list[Choice]]) -> None:
        """Record the choices of one seed."""
        rows = {row: [[one.time, one.regret] for one in several] for row, several in found.items()}
        self._known[surface, slots, seed] = rows
        if self._file:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([[surface, slots, seed], rows]) + "\n")

    def of(self, surface: str, slots: int, row: str, repetitions: int) -> list[list[Choice]]:
        """Return the choices of a row for each seed."""
        several = (self._known[surface, slots, seed][row] for seed in range(repetitions))
        return [[Choice(*one) for one in found] for found in several]


def main() -> None:
    """Run the searches that are not recorded, and print the table."""
    parser = ArgumentParser(
        description=__doc__.partition("\n")[0] if __doc__ else None,
        epilog="Example: python benchmarks/search/search_speed.py --repetitions 4 --surface bowl",
    )
    parser.add_argument(
        "--repetitions", type=int, default=16, help="searches per row (default: %(default)s)"
    )
    parser.add_argument(
        "--surface",
        action="append",
        choices=NAMES,
        help="search this surface; can be repeated (default: all)",
    )
    parser.add_argument(
        "--slots",
        action="append",
        type=int,
        help="simultaneous trials; can be repeated (default: 1 and 8)",
    )
    parser.add_argument(
        "--records", type=Path, help="record searches in this file, and skip recorded ones"
    )
    asked = parser.parse_args()
    records = Records(asked.records)
    _quiet()
    with ProcessPoolExecutor(os.cpu_count(), initializer=_quiet) as pool:
        for surface in surfaces(asked.surface or NAMES):
            best, share = best_mean(surface)
            say(f"{surface.name}: best mean {100 * best:.2f}, {share:.2%} within 0.3 points")
            for slots in asked.slots or SLOTS:
                seeds = records.missing(surface.name, slots, asked.repetitions)
                call = partial(choices, surface, best=best, slots=slots)
                for seed, found in zip(seeds, pool.map(call, seeds), strict=True):
                    records.add(surface.name, slots, seed, found)
                say(f"  {slots} at once             regret  within 0.3             within 1")
                for row in ROWS:
                    _say_row(row, records.of(surface.name, slots, row, asked.repetitions))


def _say_row(row: str, found: list[list[Choice]]) -> None:
    """Print one row, summarised over its searches."""
    below = [100 * regret(one) for one in found]
    mean, error = np.mean(below), np.std(below) / math.sqrt(len(below))
    times = [[time_needed(one, close) for one in found] for close in CLOSE]
    columns = "   ".join(_quartiles(each) for each in times)
    say(f"    {row:15s} {mean:6.2f} +- {error:4.2f}   {columns}")


def say(line: str) -> None:
    """Print a line and flush it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _quartiles(times: list[float]) -> str:
    """Format the median and the quartiles."""
    low, middle, high = np.percentile(times, [25, 50, 75], method="lower")
    return f"{_text(middle)} ({_text(low)} {_text(high)})"


def _text(time: float) -> str:
    return f"{time:5.1f}" if math.isfinite(time) else f" >{ASKED_AT[-1]}"


def _quiet() -> None:
    """Hide warnings of scikit-learn and Optuna about fits that reach a bound."""
    warnings.simplefilter("ignore")


if __name__ == "__main__":
    main()
