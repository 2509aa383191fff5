"""Sinks in a process of their own: same answers and errors, and an end with their caller."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cse_platform.errors import StoreDownError
from cse_platform.stores import sink_process
from cse_platform.stores.sink_process import SinkProcess
from cse_platform.tracking.events import SweepFinished
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder


class TextFile:
    """A sink that writes the positions of the events into a file; not while `down` exists."""

    name = "text"
    can_be_refilled = True
    rest = 0.0

    def __init__(self, file: Path) -> None:
        self.file = file

    def position(self, journal):
        return int(self.file.read_text().split()[-1]) if self.file.exists() else 0

    def apply(self, journal, entries):
        if self.file.with_name("down").exists():
            raise StoreDownError(f"down, {os.getpid()}")
        with self.file.open("a") as file:
            file.writelines(f"{event.sweep} {end}\n" for end, event in entries)


def finished(name: str = "a") -> SweepFinished:
    return SweepFinished(sweep=name, state="COMPLETE")


def test_events_reach_a_sink_in_another_process_even_if_that_dies(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    beside, journal = SinkProcess(), Journal(tmp_path / "sweeps" / "a" / "journal.jsonl")
    sink = beside.open(TextFile, tmp_path / "out")
    try:
        with Recorder(journal, [sink]) as recorder:
            recorder.record(finished())
            assert [health.behind for health in recorder.flush(60)] == [0]
            there = beside.call(os.getpid)
            assert there != os.getpid()
            (tmp_path / "down").touch()
            recorder.record(finished("b"))
            while (health := recorder.health()[0]).error is None:
                recorder.flush(0.1)
            assert (health.behind, health.error) == (1, f"down, {there}")
            os.kill(there, signal.SIGKILL)
            (tmp_path / "down").unlink()
            recorder.record(finished("c"))
            assert [health.behind for health in recorder.flush(60)] == [0]
            ends = [end for end, _ in journal.read()]
        assert (tmp_path / "out").read_text().split() == [
            word for name, end in zip("abc", ends, strict=True) for word in (name, str(end))
        ]
    finally:
        beside.close()


@pytest.mark.slow
def test_each_sink_is_its_own_also_after_others_and_after_a_failed_start(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    beside, connect = SinkProcess(), sink_process._Manager.connect

    def fail(manager: object) -> None:
        monkeypatch.setattr(sink_process._Manager, "connect", connect)
        raise OSError(24, "too many open files")

    monkeypatch.setattr(sink_process._Manager, "connect", fail)
    try:
        with pytest.raises(StoreDownError, match="too many open files"):
            beside.open(TextFile, tmp_path / "0").position("id")
        for number in range(20):
            (tmp_path / str(number)).write_text(f"a {number}\n")
            assert beside.open(TextFile, tmp_path / str(number)).position("id") == number
    finally:
        beside.close()


def test_the_process_ends_with_a_caller_that_is_killed():
    code = (
        "import os; from cse_platform.stores.sink_process import SinkProcess; "
        "print(SinkProcess().call(os.getpid), flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=False, text=True
    )
    assert done.returncode == -signal.SIGKILL
    psutil.wait_procs([p for p in psutil.process_iter() if p.pid == int(done.stdout)], timeout=60)
    assert not psutil.pid_exists(int(done.stdout))
