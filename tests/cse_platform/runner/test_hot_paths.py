"""What is costly happens once a trial or once a start: counted, not timed."""

import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from in_process import InProcessExecutor, new_spec

from cse_platform.runner import driver, worker
from cse_platform.runner.checkpoints import TrialCheckpoints
from cse_platform.runner.machine_sampling import MachineSampler
from cse_platform.runner.report_messages import REPORT, read_report
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep import identity
from cse_platform.sweep.stores import sweep_stores
from cse_platform.tracking import provenance
from cse_platform.tracking.journal import Journal

CUDA = SimpleNamespace(
    is_available=lambda: True,
    get_device_name=lambda device: "H200",
    max_memory_allocated=lambda device: 3 << 20,
)


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a worker on a GPU gives to Tune."""
    torch = SimpleNamespace(cuda=CUDA, version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(worker, "_count_assigned_threads", lambda: 2)
    monkeypatch.setattr(worker, "find_attempt", lambda: "attempt")
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(worker.tune, "report", lambda result, **_: found.append(result))
    return found


def test_a_trial_asks_once_for_its_driver_always_for_memory(reports, monkeypatch, cheap) -> None:
    asked: list[tuple[str, ...]] = []

    def output(*command: str) -> bytes:
        asked.append(command)
        return b"580.65\n"

    monkeypatch.setattr(provenance, "_read_output", output)
    config = cheap.config(backbone="mini", corpus="builtin")
    with closing(MachineSampler(2)) as machine:
        run = worker.TuneRun(42, None, config, TrialCheckpoints(0), machine, code=None)
        for step in range(3):
            run.report(step=step, metrics={"dev/stsb_spearman": 0.5})
    assert [command[0] for command in asked] == ["nvidia-smi"]
    first, *others = (read_report(report[REPORT]).provenance for report in reports)
    assert {"device": "cuda", "gpu": "H200", "gpu_driver": "580.65"}.items() <= first.items()
    memory = {"peak_memory_mib", "gpu_peak_memory_mib"}
    assert memory <= first.keys()
    assert [set(other) for other in others] == [memory, memory]


CORPUS, STSB, SICK = (
    "corpus/own.txt",
    "downstream/STS/STSBenchmark/sts-dev.csv",
    "downstream/SICK/SICK_trial.txt",
)


def filled(folder: Path) -> Path:
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


def test_a_start_reads_each_file_once(tmp_path) -> None:
    counts, data, watching = Counter[str](), filled(tmp_path / "data"), True

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and isinstance(arguments[0], (str, Path)):
            place = Path(arguments[0])
            if place.is_relative_to(data):
                counts[place.relative_to(data).as_posix()] += 1

    dev = {"checkpoint": "stsb", "search": "stsb", "also": ["sickr"]}
    spec = new_spec(data=str(data), corpus="own", dev=dev)
    places = sweep_stores(spec, runs=tmp_path / "runs")
    with (
        open_store(places.leaderboard) as board,
        Journal(places.journal) as journal,
        Lease(board, spec.sweep, journal) as lease,
    ):
        start = driver.SweepDriver(spec, places, InProcessExecutor(), board, journal, lease)
        sys.addaudithook(count)
        try:
            start.find_stage_values()
            start.identify()
            start.prepare()
        finally:
            watching = False  # a hook cannot be taken off again
    assert counts == dict.fromkeys((CORPUS, STSB, SICK), 1)


def test_a_new_trial_hashes_its_encoder_once(start, monkeypatch) -> None:
    drive = start(search={"trials": 1})
    hashed: list[Path] = []
    whole = identity.weights_sha256
    monkeypatch.setattr(
        identity, "weights_sha256", lambda folder: hashed.append(folder) or whole(folder)
    )
    (trial,) = drive.start()
    assert len(hashed) == 1
    assert drive.planner.param_space(trial)["resume_from"] is None
