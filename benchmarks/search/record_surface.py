"""Train the surfaces that `make bench-search` replays, and write their dev curves as tables.

It runs `surface.yaml` by `cse-sweep` in the given folder, so the same command resumes after a kill.
A trial takes about 25 s of a core, all of them about six hours. Needs the folder of data in
CSE_SHARED (default: `../shared` beside the project).

    python benchmarks/search/record_surface.py FOLDER [--only-export]
"""

import csv
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("CSE_SHARED", HERE.parents[2] / "shared"))
DEV = "stsb-third"
SWEEPS = {
    "rankcse": ["surface-rankcse", "surface-rankcse-near"],
    "simcse": ["surface-simcse", "surface-simcse-high", "surface-simcse-more"],
}
"""The sweeps of each table."""


def main() -> None:
    """Run what is left of the sweeps, and write a table for each surface."""
    parser = ArgumentParser(
        description=__doc__.partition("\n")[0] if __doc__ else None,
        epilog="Example: python benchmarks/search/record_surface.py surfaces",
    )
    parser.add_argument("folder", type=Path, help="folder to run the sweeps in")
    parser.add_argument(
        "--only-export", action="store_true", help="train nothing, only write the tables"
    )
    asked = parser.parse_args()
    if not asked.only_export:
        _prepare(asked.folder)
        command = Path(sys.executable).with_name("cse-sweep")
        environment = os.environ | {"CSE_DATA": str(SHARED / "data")}
        subprocess.run([command, "surface.yaml"], cwd=asked.folder, env=environment, check=True)
    for name, sweeps in SWEEPS.items():
        journals = [asked.folder / "runs/sweeps" / sweep / "journal.jsonl" for sweep in sweeps]
        rows = [row for journal in journals for row in _rows(journal)]
        _write(HERE / f"{name}.csv.gz", rows)
        sys.stdout.write(f"{name}: {len(rows)} dev points\n")


def _prepare(folder: Path) -> None:
    """Write the sweep file, and a dev set of every third pair of STS-B dev, which is faster."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "surface.yaml", folder)
    source = SHARED / "data/downstream/STS/STSBenchmark/sts-dev.csv"
    pairs = [line.split("\t") for line in source.read_text("utf-8").splitlines()]
    lines = [f"{first}\t{second}\t{score}" for *_, score, first, second in pairs[::3]]
    (folder / f"{DEV}.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines, ""]))


def _rows(journal: Path) -> Iterator[tuple[str, int, int, str]]:
    """Yield configuration (as JSON), seed, step and dev score of each point of complete trials."""
    if not journal.exists():
        return
    history = History(event for _, event in read_journal(journal))
    for trial in history.trials.values():
        if trial.state == "COMPLETE":
            configuration = json.dumps(trial.searched_values, sort_keys=True)
            for step, value in sorted(trial.curve.items()):
                yield configuration, trial.seed, step, f"{value:.5f}"


def _write(file: Path, rows: list[tuple[str, int, int, str]]) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["configuration", "seed", "step", "value"])
    table.writerows(rows)
    file.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


if __name__ == "__main__":
    main()
