import math
import shutil
import signal
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from in_process import InProcessExecutor, NewDrive, new_spec

from cse_platform.control.requests import Requests
from cse_platform.errors import SweepRefusedError
from cse_platform.launch.run import run_stage, run_stages
from cse_platform.presentation.terminal import Terminal
from cse_platform.runner.driver import refuse_older_copy
from cse_platform.runner.state import SweepState
from cse_platform.signals import interrupt_handler_kept
from cse_platform.sweep.identity import settings_hash
from cse_platform.sweep.stores import sweep_stores
from cse_platform.tracking.events import Event, Launch, SweepFinished, SweepStarted, TrialFinished
from cse_platform.tracking.journal import Journal, read_journal


def test_ctrl_c_right_after_the_start_was_recorded(start, monkeypatch) -> None:
    drive = start()

    def begin(*_: object) -> SweepState:
        signal.raise_signal(signal.SIGINT)
        return drive.state

    monkeypatch.setattr(drive.driver, "begin", begin)
    with interrupt_handler_kept(), closing(Requests(drive.state.leaderboard, "small")) as requests:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            drive.driver.run_to_end(drive.recorder, requests, lambda _: nullcontext())
    events = drive.close().events()
    assert [type(event) for event in events] == [SweepStarted, SweepFinished]
    assert events[-1].state == "INTERRUPTED"


def test_an_older_copy_of_the_journal_is_refused_unwritten(start, tmp_path) -> None:
    drive, path = start(), tmp_path / "journal.jsonl"
    older = path.read_bytes()
    drive.start()
    drive.close()
    board, newest = drive.state.leaderboard, path.read_bytes()
    with Journal(path) as journal:
        refuse_older_copy(board, journal, "small")
    path.write_bytes(older)
    with Journal(path) as journal, pytest.raises(SweepRefusedError, match="an older copy; put the"):
        refuse_older_copy(board, journal, "small")
    assert path.read_bytes() == older != newest


def test_a_stage_fails_if_it_completes_no_trial(tmp_path) -> None:
    spec = new_spec(search={"give_up_after": 9})
    stores = sweep_stores(spec, runs=tmp_path)
    executor = InProcessExecutor(score=lambda *_: math.nan)
    with pytest.raises(SweepRefusedError, match=r"no trial .*'small'"):
        run_stage(spec, stores, executor, Terminal(), reuse=False)


def test_the_same_file_goes_on_with_its_first_launch(start) -> None:
    """More trials of a search are a choice of their own; more test sets are none."""

    def launch(**changes: Any) -> Launch:
        return start(**changes).close().events()[-1].launch

    first = launch()
    assert launch(evaluate={"top": 1, "tasks": ["sts"]}) == first
    larger = launch(search={"trials": 9})
    assert larger.time > first.time
    assert launch() == first


def test_the_stages_of_a_file_belong_to_one_launch(tmp_path) -> None:
    """That of the first stage is the file's, also where it was launched before."""
    before = Launch(settings="", time=datetime(2030, 1, 1, tzinfo=UTC))
    specs = [new_spec(sweep=name, search={"trials": 1}) for name in ("early", "late")]
    before = before.model_copy(update={"settings": settings_hash(specs)})
    stores = [sweep_stores(spec, runs=tmp_path) for spec in specs]
    console = Terminal(quiet=True)
    run_stage(specs[0], stores[0], InProcessExecutor(), console, launch=before, reuse=False)
    stages: list[Any] = [
        SimpleNamespace(spec=spec, stores=own, steps=("stages", number))
        for number, (spec, own) in enumerate(zip(specs, stores, strict=True))
    ]
    run_stages(stages, InProcessExecutor(), console, options="", reuse=False)
    for own in stores:
        events = [event for _, event in read_journal(own.journal)]
        assert [e.launch for e in events if isinstance(e, SweepStarted)] == [before]
    stages[1].spec = specs[1].model_copy(update={"backbone": "bert-base"})
    with pytest.raises(SweepRefusedError, match=r": --set stages\.1\.sweep=NEWNAME"):
        run_stages(stages, InProcessExecutor(), console, options="", reuse=False)
    with pytest.raises(SweepRefusedError, match=r" --set sweep=NEWNAME"):  # a file of its own
        run_stage(stages[1].spec, stores[1], InProcessExecutor(), console, reuse=False)


def test_a_sweep_of_which_all_trials_fail_alike_stops_and_records_why(start, monkeypatch) -> None:
    drive = start(space={"depth": {"low": 1, "high": 1000}}, search={"trials": 20})
    monkeypatch.setattr(drive, "advance", lambda key: drive.fail(key, "too hot: 9", crashed=False))
    stops = pytest.raises(SweepRefusedError)
    with closing(Requests(drive.state.leaderboard, "small")) as requests, stops as refused:
        drive.driver.run_to_end(drive.recorder, requests, lambda _: nullcontext())
    assert "'small'" in str(refused.value) and str(refused.value).count("too hot: 9") == 1
    *events, end = drive.close().events()
    assert sum(event.kind == "trial_finished" for event in events) < 6
    assert end.state == "INTERRUPTED" and "too hot: 9" in end.why


class Witness:
    """Copies the journal after each write, as a kill would leave it."""

    def __init__(self, drive: Any, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.drive, self.folder = drive, folder
        self.ends_of_trials: list[int] = []
        self.count = 0
        record = drive.recorder.record

        def record_and_copy(event: Event) -> Event:
            written = record(event)
            target = self.folder / str(self.count)
            target.mkdir(parents=True)
            shutil.copy(self.drive.folder / "journal.jsonl", target)
            self.count += 1
            if isinstance(event, TrialFinished):
                self.ends_of_trials.append(self.count)
            return written

        patch.setattr(drive.recorder, "record", record_and_copy)


def check_each_kill(
    start: NewDrive, patch: pytest.MonkeyPatch, *, all_of_it: bool, **changes: Any
) -> None:
    """Go on from each copy, or from every other of one trial's life; the end is the same."""
    with patch.context() as watching:
        drive = start(**changes, folder="undisturbed")
        killed = drive.folder.parent / "killed"
        witness = Witness(drive, killed, watching)
        drive.run().close()
    expected = drive.outcome()
    first, second, *_ = witness.ends_of_trials
    life = range(first, second + 1)
    assert len(life) > 4
    for kill in range(witness.count) if all_of_it else life[::2]:
        again = start(**changes, folder=killed / str(kill)).run().assert_sound().close()
        assert again.outcome() == expected, kill


REPEATING: dict[str, Any] = {
    "space": {"kind": ["a", "b"]}, "search": {"trials": 4},
    "seeds": {"confirm": {"top": 1, "seeds": [0]}},
}  # fmt: skip


def test_killed_anywhere_in_the_life_of_a_trial(start, monkeypatch) -> None:
    check_each_kill(start, monkeypatch, all_of_it=False, search={"trials": 2})


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"search": {"trials": 4}}, REPEATING])
def test_killed_anywhere(start, monkeypatch, changes) -> None:
    check_each_kill(start, monkeypatch, all_of_it=True, **changes)
