"""A running sweep does what it is asked from another terminal."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import end_of, run_command
from store_contents import assert_stores_agree
from sweeps import Sweep

from cse_platform.tracking.events import SweepRequested, TrialFinished, TrialPoint

pytestmark = pytest.mark.slow

SECONDS = 120


@pytest.fixture
def sweep(new_sweep: Callable[..., Sweep], tmp_path: Path) -> Sweep:
    """A sweep whose trials wait after their second report."""
    gate = tmp_path / "gate"
    gate.write_text("2")
    return new_sweep(tmp_path, fixed={"gate": str(gate)})


def ask(sweep: Sweep, command: str, *arguments: str) -> None:
    done = run_command("cse-sweep", command, sweep.name, "--runs", str(sweep.runs), *arguments)
    assert done.returncode == 0, done.stderr


def test_stop_a_trial_try_another_and_raise_the_budget(sweep: Sweep, cluster: str) -> None:
    with end_of(sweep.start("--address", cluster)) as process:
        sweep.wait_for(process, TrialPoint, 4)
        ask(sweep, "stop", "--trial", "0")
        sweep.wait_for(process, TrialFinished, 1)
        assert sweep.history().unfinished()
        ask(sweep, "enqueue", "--set", "temperature=0.125")
        ask(sweep, "resume", "--trials", "4")
        sweep.wait_for(process, SweepRequested, 3)
        sweep.file.with_name("gate").write_text("6")
        out, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (0, ""), out
    trials = sweep.history().trials.values()
    assert Counter(trial.state for trial in trials) == {"COMPLETE": 4, "PRUNED": 1}
    assert sum(trial.values["temperature"] == 0.125 for trial in trials) == 1
    assert_stores_agree(sweep)
    again = sweep.run("--address", cluster)
    assert "complete already" in again.stdout
    ask(sweep, "resume", "--trials", "5")  # of a sweep that is complete
    assert sweep.run("--address", cluster).returncode == 0
    assert len(sweep.history().trials) == 6


def test_pause_then_stop_then_resume(sweep: Sweep, cluster: str) -> None:
    with end_of(sweep.start("--address", cluster)) as process:
        sweep.wait_for(process, TrialPoint, 4)
        ask(sweep, "pause")
        sweep.wait_for(process, SweepRequested, 1)
        sweep.file.with_name("gate").write_text("6")
        sweep.wait_for(process, TrialFinished, 2)
        ask(sweep, "stop")
        process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert len(sweep.history().trials) == 2
    with end_of(sweep.start("--address", cluster)) as process:
        ask(sweep, "resume")  # heard by this start, whenever it comes
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert len(sweep.history().trials) == 3
    assert_stores_agree(sweep)
