"""Measure the error rates that docs/statistics.md states, by simulation: `make bench-statistics`.

Coverage of intervals, false positives and power, with the package's own functions, on two cores.
Prints a table for each section. All simulations together are recorded in
tests/documents/recorded/error-rates.md, which `make docs` writes into the page; sections that were
left out keep their recorded tables. The real sets' graphs of sentences need the data folder.

    python benchmarks/error_rates/measure.py [SECTION ...] [--share 0.01]
"""

import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pairs
import searches
import seeds
from simulator import Simulator

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "documents"))

from doc_blocks import ERROR_RATES, format_parts, read_parts

PROCESSES = 2
SECTIONS: dict[str, Callable[[Simulator], str | None]] = {
    "rows": seeds.measure_rows,
    "groups": pairs.measure_groups,
    "ranks": seeds.measure_ranks,
    "comparisons": seeds.measure_comparisons,
    "unequal-comparisons": seeds.measure_unequal_comparisons,
    "pairs-and-seeds": pairs.measure_pairs_and_seeds,
    "pairs-alone": pairs.measure_pairs_alone,
    "kinds": pairs.measure_kinds,
    "holm": seeds.measure_holm,
    "williams": pairs.measure_williams,
    "power": seeds.measure_power,
    "races": searches.measure_races,
    "expected-best": searches.measure_expected_best,
    "curse": searches.measure_curse,
    "borders": searches.measure_borders,
    "selection": searches.measure_selection,
}


def main() -> None:
    """Measure the sections, print their tables, and record them if nothing was shortened."""
    parser = ArgumentParser(
        description=__doc__.partition("\n")[0] if __doc__ else None,
        epilog="Example: python benchmarks/error_rates/measure.py rows races --share 0.01",
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"by default all: {', '.join(SECTIONS)}"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="run this share of the simulations, and record nothing (default: all)",
    )
    asked = parser.parse_args()
    if unknown := set(asked.sections) - SECTIONS.keys():
        parser.error(f"no section {', '.join(sorted(unknown))}; there are: {', '.join(SECTIONS)}")
    parts = read_parts(ERROR_RATES)
    with ProcessPoolExecutor(PROCESSES) as pool:
        simulator = Simulator(pool, asked.share)
        for name in asked.sections or SECTIONS:
            started = time.monotonic()
            if (table := SECTIONS[name](simulator)) is None:
                say(f"## {name}\n\nleft out: no data; set CSE_DATA or CSE_SHARED\n")
                continue
            say(f"## {name} ({time.monotonic() - started:.0f} s)\n\n{table}")
            parts[name] = table
    if asked.share == 1:
        ERROR_RATES.write_text(
            format_parts({name: parts[name] for name in SECTIONS if name in parts}), "utf-8"
        )


def say(text: str) -> None:
    """Print and flush."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
