import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from processes import python

from cse_platform.errors import LeaseLostError, StoreDownError, StoreError
from cse_platform.stores import sink_process
from cse_platform.stores.sink_process import SinkProcess
from cse_platform.tracking import journal as journal_module
from cse_platform.tracking import recorder as recorder_module
from cse_platform.tracking.events import Event, SweepFinished, TrialPoint
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.recorder import Recorder, SinkHealth


class Memory:
    """A store outside ours, that is down for its first `failures` calls."""

    def __init__(self, name: str = "memory", *, failures: int = 0) -> None:
        self.name = name
        self.steps: list[int] = []
        self.batches: list[int] = []
        self.failures = failures
        self.cursor = 0
        self.can_be_refilled = False
        self.pause = 0.0

    def position(self, journal: str) -> int:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no route\nto host")
        return self.cursor

    def apply(self, journal: str, entries: Sequence[tuple[int, Event]]) -> None:
        self.steps += [event.step for _, event in entries if isinstance(event, TrialPoint)]
        self.batches.append(len(entries))
        self.cursor = entries[-1][0]


def wait_for_error(recorder: Recorder) -> None:
    while recorder.health()[0].error is None:
        time.sleep(0.01)


def point(step: int) -> TrialPoint:
    return TrialPoint(sweep="s", trial="t", step=step, value=0.5, metrics={})


def test_every_sink_gets_all_events_in_order(tmp_path) -> None:
    sinks = [Memory("a"), Memory("b")]
    with Recorder(Journal(tmp_path / "journal"), sinks) as recorder:
        for step in range(1200):
            recorder.record(point(step))
        assert recorder.flush(120) == [SinkHealth("a", 0, None), SinkHealth("b", 0, None)]
    for sink in sinks:
        assert sink.steps == list(range(1200))
        assert max(sink.batches) <= 500


def test_a_sink_that_is_down_catches_up_and_harms_no_other(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(recorder_module, "FIRST_DELAY", 0.01)
    down, up = Memory("down", failures=5), Memory("up")
    with Recorder(Journal(tmp_path / "journal"), [down, up]) as recorder:
        recorder.record(point(0))
        recorder.record(point(1))
        assert recorder.flush(120) == [SinkHealth("down", 0, None), SinkHealth("up", 0, None)]
    assert down.steps == up.steps == [0, 1]
    expected = ["down is behind and will catch up: no route to host", "down is back"]
    assert [record.getMessage() for record in caplog.records] == expected


def test_an_error_that_stays_is_said_also_after_another(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(recorder_module, "FIRST_DELAY", 0.01)
    sink, errors = Memory("down"), [StoreError("replaced"), *[StoreError("move it away")] * 3]

    def fail(journal: str) -> int:
        if errors:
            raise errors.pop(0)
        return 0

    monkeypatch.setattr(sink, "position", fail)
    with Recorder(Journal(tmp_path / "journal"), [sink]) as recorder:
        recorder.record(point(0))
        while recorder.health()[0].behind:
            recorder.flush(120)
    said = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert said == ["replaced", "move it away", "down is back"]


def test_a_sink_that_stays_down_is_visible_and_filled_at_the_next_start(tmp_path) -> None:
    sink = Memory(failures=10**6)
    recorder = Recorder(Journal(tmp_path / "journal"), [sink])
    recorder.record(point(0))
    recorder.record(point(1))
    wait_for_error(recorder)
    assert recorder.close(timeout=0.1) == [SinkHealth("memory", 2, "no route to host")]
    sink.failures = 0
    with Recorder(Journal(tmp_path / "journal"), [sink]) as recorder:
        recorder.record(point(2))
    assert sink.steps == [0, 1, 2]


def test_an_older_copy_of_the_journal_is_not_applied(tmp_path) -> None:
    sink = Memory()
    sink.cursor = 10**6
    recorder = Recorder(Journal(tmp_path / "journal"), [sink])
    recorder.record(point(0))
    wait_for_error(recorder)
    [health] = recorder.close(timeout=0.1)
    assert health.behind == 1
    assert "not the newest copy" in health.error
    assert sink.steps == []


def test_a_sink_that_can_take_all_again_is_filled_from_an_older_copy(tmp_path) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.append(point(0))
        end = journal.end
    sink = Memory()
    sink.can_be_refilled = True
    with Journal(tmp_path / "journal") as journal:
        sink.cursor, _ = journal.append(point(1))
        assert sink.cursor > end
        with Recorder(journal, [sink]) as recorder:
            assert recorder.flush(120) == [SinkHealth("memory", 0, None)]
    assert sink.steps == [0, 1]


def test_no_sink_gets_anything_once_another_driver_has_the_sweep(tmp_path, monkeypatch) -> None:
    """Not even if this process was suspended for long just before a batch."""
    lost, sink = threading.Event(), Memory()
    find_position = sink.position

    def find_position_for_long(journal: str) -> int:
        lost.set()
        return find_position(journal)

    def check() -> None:
        if lost.is_set():
            raise LeaseLostError("another driver has it")

    with Recorder(Journal(tmp_path / "journal"), [sink], check) as recorder:
        recorder.record(point(0))
        recorder.flush(120)
        monkeypatch.setattr(sink, "position", find_position_for_long)
        recorder.record(point(1))
        assert recorder.flush(120) == [SinkHealth("memory", 1, None)]
    assert sink.steps == [0]


def test_no_sink_is_ahead_of_the_disk(tmp_path, monkeypatch) -> None:
    """After a power cut the journal would go on before the place that the sink has reached."""
    monkeypatch.setattr(journal_module, "SYNC_SECONDS", 3600.0)
    sink = Memory()
    recorder = Recorder(Journal(tmp_path / "journal"), [sink])
    recorder.record(point(0))
    assert recorder.close(timeout=0.3) == [SinkHealth("memory", 1, None)]
    assert sink.steps == []
    monkeypatch.undo()
    with Recorder(Journal(tmp_path / "journal"), [sink]) as recorder:
        recorder.flush(120)
    assert sink.steps == [0]


def test_a_sink_that_pauses_gets_the_next_events_together(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(journal_module, "SYNC_SECONDS", 0.01)
    sink = Memory()
    sink.pause = 600.0
    with Recorder(Journal(tmp_path / "journal"), [sink]) as recorder:
        for step in range(3):
            recorder.record(point(step))
            recorder.flush(120)
        assert sink.batches == [1, 1, 1]
        for step in range(3, 6):
            recorder.record(point(step))
            time.sleep(0.05)
        assert recorder.health() == [SinkHealth("memory", 3, None)]
        recorder.flush(120)
    assert sink.batches == [1, 1, 1, 3]


class TextFile:
    """A sink that writes the positions of the events into a file; not while `down` exists."""

    name = "text"
    can_be_refilled = True
    pause = 0.0

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
    done = python(code, check=False)
    assert done.returncode == -signal.SIGKILL
    psutil.wait_procs([p for p in psutil.process_iter() if p.pid == int(done.stdout)], timeout=60)
    assert not psutil.pid_exists(int(done.stdout))
