"""What a sweep says while it runs, by hand on sweeps with made-up scores."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cse_platform.cli import progress
from cse_platform.cli.progress import SweepProgress, watching
from cse_platform.sweep.spec import SweepSpec

NewSpec = Callable[..., SweepSpec]
NewDrive = Callable[..., Any]

SPACE = {"temperature": [0.123456], "kind": ["b"]}


def rising(values: Mapping[str, Any], seed: int, step: int) -> float:
    return 0.5 + step / 100


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


def test_nothing_yet(drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen(monkeypatch, 100.0, 101.0)
    view = SweepProgress(drive.state)
    assert view.summary() == "small: 0 of 2 trials · elapsed 0:01"
    assert (view.fraction, view.best, view.table().row_count) == (0, None, 0)


def test_half_way(drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three quarters are left of the work after a quarter of it took 100 seconds."""
    frozen(monkeypatch, 0.0, 100.0)
    view = SweepProgress(drive.state)
    (plan,) = drive.start()
    drive.advance(plan.key)
    drive.advance(plan.key)
    assert view.fraction == 0.25
    assert view.summary() == (
        "small: 0 of 2 trials · best 52.00 (trial 0) · elapsed 1:40 · about 5:00 left"
    )


def test_a_finished_trial_is_one_line(drive: Any) -> None:
    drive.run()
    view = SweepProgress(drive.state)
    first, repeat = view.trials
    assert view.line(first) == (
        "trial   0 COMPLETE dev  54.00 at step 4  seed 42  temperature=0.123 kind=b"
    )
    assert view.line(repeat) == (
        "trial   1 COMPLETE dev  54.00 at step 4  seed 43  temperature=0.123 kind=b"
    )
    assert view.fraction == 1


def test_all_failed(drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen(monkeypatch, 0.0, 3700.0)
    view = SweepProgress(drive.state)
    for _ in range(2):
        (plan,) = drive.start()
        drive.fail(plan.key, "ValueError: [enforce fail] /x", crashed=False)
    assert view.summary() == "small: 2 of 2 trials · elapsed 1:01:40 · about 0:00 left"
    assert view.line(view.trials[0]) == (
        "trial   0 FAIL     dev         seed 42  temperature=0.123 kind=b"
        ": ValueError: [enforce fail] /x"
    )


def test_further_seeds_are_planned_for(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    """Seed 42 is the search's own, and there are no more than two configurations."""
    confirm = {"confirm": {"top": 3, "seeds": [42, 0, 1]}}
    drive = new_drive(tmp_path, new_spec(search={"trials": 2}, seeds=confirm))
    view = SweepProgress(drive.state)
    assert view.planned == 2 + 2 * 2
    drive.run()
    assert (view.fraction, len(view.trials)) == (1, 6)


def test_what_is_taken_over_counts_and_has_a_best(
    tmp_path: Path, new_drive: NewDrive, new_spec: NewSpec
) -> None:
    first = new_drive(tmp_path / "first", new_spec(), score=rising)
    first.run()
    first.close()
    again = new_spec(sweep="again")
    second = new_drive(tmp_path / "second", again, leaderboard=tmp_path / "first")
    second.run()
    view = SweepProgress(second.state)
    assert view.best is not None and view.best_value(view.best) == 0.54
    assert view.summary().startswith("again: 3 of 3 trials · best 54.00 (trial 0)")


def test_what_is_behind_is_said(drive: Any) -> None:
    drive.state.search_error = "no route"
    assert SweepProgress(drive.state).summary().endswith(" · search store down (no route)")


def test_plain_lines_where_there_is_no_terminal(
    drive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trial once, whole, and what looks like markup as it is."""
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.001)
    out = io.StringIO()
    console = Console(file=out, markup=False, highlight=False, width=40)
    with watching(drive.state, console):
        (plan,) = drive.start()
        drive.fail(plan.key, "[/closing] tag", crashed=False)
        drive.run()
    failed, complete, summary = out.getvalue().splitlines()
    assert failed.endswith(": [/closing] tag")
    assert complete.startswith("trial   1 COMPLETE dev  54.00")
    assert summary.startswith("small: 2 of 2 trials · best 54.00 (trial 1)")


def test_a_live_table_on_a_terminal(drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.001)
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, markup=False, highlight=False, width=100, height=30
    )
    drive.run()
    with watching(drive.state, console):
        pass
    assert "small: 2 of 2 trials" in out.getvalue().splitlines()[-1]
    console.print(SweepProgress(drive.state).table())
    assert "temperature=0.123 kind=b" in out.getvalue()
