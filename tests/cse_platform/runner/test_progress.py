import io
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from in_process import NewDrive
from rich.console import Console

from cse_platform.launch import progress
from cse_platform.launch.progress import SweepProgress, watching
from cse_platform.launch.sweep_lines import trial_line
from cse_platform.presentation.terminal import Silence
from cse_platform.runner.evaluation import evaluate_selected
from cse_platform.tracking.events import now

SPACE = {"temperature": [0.123456], "kind": ["b"]}


def rising(values: Mapping[str, Any], seed: int, step: int) -> float:
    return 0.5 + step / 100


def progress_of(drive: Any) -> SweepProgress:
    return SweepProgress(drive.state, errors=drive.folder / "errors")


@pytest.fixture
def drive(start: NewDrive) -> Any:
    return start(space=SPACE, search={"trials": 2}, score=rising)


def aged(drive: Any, number: int, **seconds: float) -> None:
    """A trial ran so long (`busy`), and was last heard of so long ago (`silent`)."""
    trial = drive.trials[number]
    trial.busy_seconds = seconds["busy"]
    trial.last_heard = now() - timedelta(seconds=seconds.get("silent", 0))


def test_the_time_left_follows_from_the_mean_duration(drive) -> None:
    """One trial took 100 s; the other has run for 60 s of about as many."""
    view = progress_of(drive)
    (plan,) = drive.start()
    drive.advance(plan.key)
    drive.advance(plan.key)
    assert view.seconds_left() is None
    drive.finish(plan.key)
    drive.start()
    aged(drive, 0, busy=100)
    aged(drive, 1, busy=50, silent=10)
    assert view.seconds_left() == pytest.approx(40, abs=2)
    assert re.search(r" · about (39|40) s left$", view.summary())
    drive.run()
    assert view.seconds_left() is None
    assert [trial_line(trial, errors=None) for trial in view.trials] == [
        f"trial   {number} COMPLETE dev  54.00 at step 4  seed {seed}  temperature=0.123 kind=b"
        for number, seed in enumerate((42, 43))
    ]


def test_a_failed_trial_says_where_to_look(drive, monkeypatch) -> None:
    moments = iter([0.0])
    clock = SimpleNamespace(monotonic=lambda: next(moments, 3700.0))
    monkeypatch.setattr(progress, "time", clock)
    view = progress_of(drive)
    for points in (0, 2):  # a failed trial is never the best
        (plan,) = drive.start()
        for _ in range(points):
            drive.advance(plan.key)
        drive.fail(plan.key, "ValueError: [enforce fail] /x", crashed=False)
    assert view.summary() == "small: 2 of 2 trials · elapsed 1:01:40"
    traceback = drive.folder / "errors" / "trial-0.txt"
    assert traceback.read_text().startswith("all of ValueError: [enforce fail] /x\n")
    trial = view.trials[0]
    assert trial_line(trial, errors=traceback.parent) == (
        "trial   0 FAIL     dev         seed 42  temperature=0.123 kind=b: ValueError: "
        f"[enforce fail] /x (key {trial.key[:8]}, traceback {traceback})"
    )


def test_where_every_trial_failed_no_test_sets_are_counted(start) -> None:
    evaluate = {"top": 1, "tasks": ["sts"]}
    drive = start(space=SPACE, search={"trials": 2}, evaluate=evaluate, score=rising)
    view = progress_of(drive)
    for _ in range(2):
        (plan,) = drive.start()
        drive.fail(plan.key, "ValueError: nan", crashed=False)
    evaluate_selected(drive.state, apply_requests=list)
    assert re.fullmatch(r"small: 2 of 2 trials · elapsed 0:\d\d", view.summary())


def test_what_is_taken_over_counts_and_has_a_best(start) -> None:
    start(folder="first", score=rising).run().close()
    second = start(sweep="again", folder="second", leaderboard="first").run()
    view = progress_of(second)
    assert view.summary().startswith("again: 3 of 3 trials · best 54.00 (trial 0)")


def watched(drive: Any, monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any], **how: Any) -> str:
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.001)
    out = io.StringIO()
    console = Console(file=out, markup=False, highlight=False, **how)
    with watching(drive.state, console, errors=drive.folder / "errors"):
        run()
    return out.getvalue()


@pytest.fixture
def failing_first(drive: Any) -> Callable[[], None]:
    def run() -> None:
        (plan,) = drive.start()
        drive.fail(plan.key, "[/closing] tag", crashed=False)
        drive.run()

    return run


def test_plain_lines_where_there_is_no_terminal(drive, failing_first, monkeypatch) -> None:
    shown = watched(drive, monkeypatch, failing_first, width=40).splitlines()
    began, failed, complete, summary = shown
    assert began == "Trial 0 began"
    assert ": [/closing] tag (key " in failed
    assert complete.startswith("trial   1 COMPLETE dev  54.00")
    assert summary.startswith("small: 2 of 2 trials · best 54.00 (trial 1)")


def test_a_live_table_on_a_terminal(drive, failing_first, monkeypatch) -> None:
    terminal = {"force_terminal": True, "width": 100, "height": 30}
    shown = watched(drive, monkeypatch, failing_first, **terminal)
    assert "small: 2 of 2 trials" in shown.splitlines()[-1]
    assert shown.count("trial   0 FAIL") == 1
    assert "trial   1 COMPLETE" not in shown
    assert "temperature=0.123 kind=b" in shown


def test_what_is_refused_before_the_first_trial_has_no_summary(drive, monkeypatch) -> None:
    for terminal in (True, False):
        how = {"force_terminal": terminal, "width": 100, "height": 30}
        shown = watched(drive, monkeypatch, lambda: None, **how)
        assert "elapsed" not in shown.rpartition("\x1b")[2]


def test_a_log_says_that_a_resumed_trial_goes_on(start) -> None:
    first = start(score=rising)
    (plan,) = first.start()
    first.advance(plan.key)
    first.close()
    second = start(score=rising)
    log = progress_of(second)
    screen = Console(file=io.StringIO(), width=100)
    screen.print(log.screen(height=30))
    assert re.search(r"^ +0 +waiting ", screen.file.getvalue(), re.MULTILINE)
    second.start()
    assert log.new_texts() == ["Trial 0 goes on"]


def test_a_log_says_how_far_a_sweep_is_once_a_minute_while_nothing_else_is_printed(drive) -> None:
    seconds = 0.0
    log = progress_of(drive)
    log.silence = Silence(lambda: seconds)
    (plan,) = drive.start()
    seconds = 50.0
    assert log.new_texts() == ["Trial 0 began"]
    told = {}
    for second in range(51, 300):
        seconds = float(second)
        if texts := log.new_texts():
            told[second] = texts
        if second == 120:
            drive.report(plan.key, 2)
        if second == 200:
            drive.fail(plan.key, "no memory", crashed=False)
    assert list(told) == [110, 170, 201, 261]
    assert told[110][0].startswith("small: 0 of 2 trials · ") and "FAIL" in told[201][0]
    (value,) = drive.history.trials[plan.key].curve.values()
    assert told[170][1] == f"  trial 0: dev {100 * value:.2f} at step 2, 50% done"
