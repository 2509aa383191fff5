"""What a sweep reads before its first trial, it reads once."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from in_process import InProcessExecutor, NewSpec

from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.store import open_store
from cse_platform.runner.driver import SweepDriver
from cse_platform.sweep.stores import sweep_stores
from cse_platform.tracking.journal import Journal

CORPUS, STSB, SICK = (
    "corpus/own.txt",
    "downstream/STS/STSBenchmark/sts-dev.csv",
    "downstream/SICK/SICK_trial.txt",
)


def filled(folder: Path) -> Path:
    """A data folder with a corpus and the two dev sets of pairs."""
    pair = "A man sings .\tA dog runs ."
    texts = {
        CORPUS: "A man sings .\nA dog runs .\n",
        STSB: "".join(f"a\tb\tc\t{number}\t2.5\t{pair}\n" for number in range(1500)),
        SICK: "head\n" + "".join(f"{number}\t{pair}\t2.5\tNEUTRAL\n" for number in range(500)),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_corpus_and_dev_sets_are_opened_once(new_spec: NewSpec, tmp_path: Path) -> None:
    data, opened, watching = filled(tmp_path / "data"), Counter[str](), True

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and isinstance(arguments[0], (str, Path)):
            place = Path(arguments[0])
            if place.is_relative_to(data):
                opened[place.relative_to(data).as_posix()] += 1

    dev = {"checkpoint": "stsb", "search": "stsb", "also": ["sickr"]}
    spec = new_spec(data=str(data), corpus="own", dev=dev)
    places = sweep_stores(spec, runs=tmp_path / "runs", environment={})
    with (
        open_store(places.leaderboard) as board,
        Journal(places.journal) as journal,
        Lease(board, spec.sweep, journal) as lease,
    ):
        driver = SweepDriver(spec, places, InProcessExecutor(), board, journal, lease)
        sys.addaudithook(count)
        try:
            driver.identify()
            driver.prepare()
        finally:
            watching = False  # a hook cannot be taken off again
    assert opened == {CORPUS: 1, STSB: 1, SICK: 1}
