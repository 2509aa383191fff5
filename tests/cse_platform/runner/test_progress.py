"""What a sweep says while it runs, by hand on sweeps with made-up scores."""

import io
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from in_process import NewDrive, NewSpec
from rich.console import Console

from cse_platform.cli import progress
from cse_platform.cli.progress import SweepLog, SweepProgress, watching
from cse_platform.cli.sweep_lines import trial_line
from cse_platform.forecast.time_left import span, time_left
from cse_platform.render.terminal import Silence
from cse_platform.tracking.events import now

SPACE = {"temperature": [0.123456], "kind": ["b"]}


def rising(values: Mapping[str, Any], seed: int, step: int) -> float:
    return 0.5 + step / 100


def progress_of(drive: Any) -> SweepProgress:
    return SweepProgress(drive.state, errors=drive.folder / "errors")


def frozen(monkeypatch: pytest.MonkeyPatch, *moments: float) -> None:
    """The clock shows these moments, and then stays."""
    left = list(moments)
    clock = SimpleNamespace(monotonic=lambda: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(progress, "time", clock)


@pytest.fixture
def drive(tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec) -> Any:
    """A sweep of two trials, nothing started."""
    spec = new_spec(space=SPACE, search={"trials": 2})
    return new_drive(tmp_path, spec, score=rising)


def shown(drive: Any, width: int, height: int = 40) -> list[str]:
    return progress_of(drive).screen(width=width, height=height).plain.splitlines()


def test_until_the_first_trial_ray_is_starting(drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen(monkeypatch, 100.0, 101.0)
    view = progress_of(drive)
    assert view.summary() == "small: 0 of 2 trials · starting Ray · elapsed 0:01"
    assert (view.time_left(), view.best, len(shown(drive, 80))) == (None, None, 2)
    (plan,) = drive.start()
    assert "starting Ray" not in view.summary()
    assert shown(drive, 80)[2].split()[:2] == ["0", "starting"]
    drive.advance(plan.key)
    assert shown(drive, 80)[2].split()[:2] == ["0", "running"]
    drive.state.stalled = {plan.key}
    assert shown(drive, 80)[2].split()[:2] == ["0", "stalled"]
    drive.state.stalled = set()
    drive.run()
    assert "starting Ray" not in view.summary()


def aged(drive: Any, number: int, **seconds: float) -> None:
    """A trial ran so long (`busy`), and was last heard of so long ago (`silent`)."""
    trial = list(drive.history.trials.values())[number]
    trial.busy_seconds = seconds["busy"]
    trial.last_heard = now() - timedelta(seconds=seconds.get("silent", 0))


def test_the_time_left_is_an_interval_that_narrows(drive: Any) -> None:
    """One trial took 100 s; the other has run for 60 s of about as many."""
    view = progress_of(drive)
    (plan,) = drive.start()
    drive.advance(plan.key)
    assert view.time_left() is None
    drive.advance(plan.key)
    aged(drive, 0, busy=50)
    projected = view.time_left()
    while drive.running:
        drive.advance(plan.key)
    drive.start()
    aged(drive, 0, busy=100)
    aged(drive, 1, busy=50, silent=10)
    known = view.time_left()
    assert projected is not None and known is not None
    assert known == pytest.approx(time_left([100], trials=0.4, at_once=1), rel=0.05)
    assert known[1] / known[0] < projected[1] / projected[0]
    assert view.summary().endswith(f" · {span(known)} left")
    drive.run()
    assert view.time_left() is None
    assert [trial_line(trial, errors=None) for trial in view.trials] == [
        f"trial   {number} COMPLETE dev  54.00 at step 4  seed {seed}  temperature=0.123 kind=b"
        for number, seed in enumerate((42, 43))
    ]


def test_a_failed_trial_says_where_to_look(drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen(monkeypatch, 0.0, 3700.0)
    view = progress_of(drive)
    for _ in range(2):
        (plan,) = drive.start()
        drive.fail(plan.key, "ValueError: [enforce fail] /x", crashed=False)
    assert view.summary() == "small: 2 of 2 trials · elapsed 1:01:40"
    traceback = drive.folder / "errors" / "trial-0.txt"
    assert traceback.read_text().startswith("all of ValueError: [enforce fail] /x\n")
    trial = view.trials[0]
    assert trial_line(trial, errors=traceback.parent) == (
        "trial   0 FAIL     dev         seed 42  temperature=0.123 kind=b: ValueError: "
        f"[enforce fail] /x (key {trial.key[:8]}, traceback {traceback})"
    )


def test_what_is_taken_over_counts_and_has_a_best(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    first = new_drive(tmp_path / "first", new_spec(), score=rising)
    first.run()
    first.close()
    again = new_spec(sweep="again")
    second = new_drive(tmp_path / "second", again, leaderboard=tmp_path / "first")
    second.run()
    view = progress_of(second)
    assert view.best is not None and view.best_value(view.best) == 0.54
    assert view.summary().startswith("again: 3 of 3 trials · best 54.00 (trial 0)")


def test_what_is_behind_is_said(drive: Any) -> None:
    drive.state.search_error = "no route"
    assert progress_of(drive).summary().endswith(" · search store down (no route)")


def test_plain_lines_where_there_is_no_terminal(
    drive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trial once, whole, and what looks like markup as it is."""
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.001)
    out = io.StringIO()
    console = Console(file=out, markup=False, highlight=False, width=40)
    with watching(drive.state, console, errors=drive.folder / "errors"):
        (plan,) = drive.start()
        drive.fail(plan.key, "[/closing] tag", crashed=False)
        drive.run()
    began, failed, complete, summary = out.getvalue().splitlines()
    assert began == "Trial 0 began"
    assert ": [/closing] tag (key " in failed
    assert complete.startswith("trial   1 COMPLETE dev  54.00")
    assert summary.startswith("small: 2 of 2 trials · best 54.00 (trial 1)")


def test_a_log_says_how_far_a_sweep_is_once_a_minute_while_nothing_else_is_printed(
    drive: Any,
) -> None:
    seconds = 0.0
    log = SweepLog(progress_of(drive), Silence(lambda: seconds))
    drive.state.ray_is_up = True
    assert log.new_texts() == ["Ray started"]
    (plan,) = drive.start()
    seconds = 50.0
    assert log.new_texts() == ["Trial 0 began"]
    told = {}
    for second in range(51, 300):
        seconds = float(second)
        if texts := log.new_texts():
            told[second] = texts
        if second == 200:
            drive.fail(plan.key, "no memory", crashed=False)
    assert list(told) == [110, 170, 201, 261]
    assert told[110][0].startswith("small: 0 of 2 trials · ") and "FAIL" in told[201][0]


def test_a_live_table_on_a_terminal(drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed trial has a line that stays; the others are in the table."""
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.001)
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, markup=False, highlight=False, width=100, height=30
    )
    with watching(drive.state, console, errors=drive.folder / "errors"):
        (plan,) = drive.start()
        drive.fail(plan.key, "[/closing] tag", crashed=False)
        drive.run()
    assert "small: 2 of 2 trials" in out.getvalue().splitlines()[-1]
    assert out.getvalue().count("trial   0 FAIL") == 1
    assert "trial   1 COMPLETE" not in out.getvalue()
    assert "temperature=0.123 kind=b" in out.getvalue()


def test_what_is_refused_before_the_first_trial_has_no_summary(
    drive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.001)
    for terminal in (True, False):
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=100, height=30)
        with watching(drive.state, console, errors=drive.folder / "errors"):
            pass
        assert "elapsed" not in out.getvalue().rpartition("\x1b")[2]


SEVEN = {
    "rank_loss": "listnet", "learning_rate": 2.2273727064606707e-05, "tau2": 0.025, "tau3": 0.05,
    "alpha": 0.6418789837153174, "beta": 2.0, "gamma": 0.5,
}  # fmt: skip


SHORT = ("listnet", "2.23e-05", "0.025", "0.05", "0.642", "2", "0.5")


def test_seven_settings_leave_the_other_columns_whole(drive: Any) -> None:
    """Of two trials; the second still runs."""
    drive.start()
    while len(drive.history.trials) < 2:
        drive.advance(next(iter(drive.running)))
        drive.start()
    for trial in drive.history.trials.values():
        trial.searched, trial.values = tuple(SEVEN), SEVEN
    whole = [f"{name}={value}" for name, value in zip(SEVEN, SHORT, strict=True)]
    for width, count in {80: 1, 120: 5, 200: 7}.items():
        _, head, running, complete, best, *full = shown(drive, width)
        assert head.split() == ["trial", "state", "step", "dev", "best", "seed", "settings"]
        assert running.split()[:4] == ["1", "starting", "0", "43"]
        assert complete.split()[:6] == ["0", "complete", "4", "54.00", "54.00", "42"]
        assert all(len(line) <= width for line in shown(drive, width))
        settings = complete[head.index("settings") :].split()
        assert settings == whole or (settings.pop(), settings) == ("…", whole[: len(settings)])
        assert len(settings) == count
        assert best.startswith("best: trial 0, dev 54.00, seed 42")
        assert " ".join(full).split() == whole


def test_a_low_terminal_keeps_the_best(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    drive = new_drive(tmp_path, new_spec(space=SPACE, search={"trials": 13}), score=rising)
    drive.run()
    assert len(shown(drive, 80, 40)) == 1 + 1 + 12 + 2
    low = shown(drive, 80, 10)
    assert len(low) == 9 and low[-2].startswith("best: trial 0, ")


def test_confirmed_configurations_are_shown_in_full(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """The two best of three are given another seed; one of them is the best trial's."""
    confirm = {"confirm": {"top": 2, "seeds": [0]}}
    spec = new_spec(search={"sampler": "random", "trials": 3, "seed": 1}, seeds=confirm)
    drive = new_drive(tmp_path, spec)
    assert progress_of(drive).planned == 3 + 2
    drive.run()
    picked = [t for t in drive.history.trials.values() if t.role == "confirm"]
    text = "\n".join(shown(drive, 200))
    assert text.count("\nbest: trial ") == 1 and text.count("\nconfirmed: trial ") == 2
    for trial in picked:
        assert text.count(f"temperature={trial.values['temperature']:.3g} ") >= 3
        seeds = [t for t in drive.history.trials.values() if t.configuration == trial.configuration]
        mean = sum(t.best_value for t in seeds) / 2
        assert f"mean dev {100 * mean:.2f} over 2 of the seeds 42 0" in text
