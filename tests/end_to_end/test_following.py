"""A sweep is followed from elsewhere, by its leaderboard alone."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cheap import TOO_HOT
from click.testing import CliRunner
from processes import SECONDS, end_of, environment, interruptible, script
from sweeps import Sweep

from cse_platform.cli.sweep import main
from cse_platform.tracking.events import TrialPoint

pytestmark = pytest.mark.slow

NewSweep = Callable[..., Sweep]

SOME_FAIL = {
    "space": {"temperature": {"low": TOO_HOT / 3, "high": TOO_HOT * 3, "log": True}},
    "search": {"sampler": "random", "trials": 4, "seed": 6},
}


def followed(command: str, sweep: Sweep, *arguments: str) -> tuple[int, str]:
    """Exit code and output of `logs`, `attach` or `status`."""
    words = [command, sweep.name, "--runs", str(sweep.runs), *arguments]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    return done.exit_code, done.output


def attach(sweep: Sweep) -> "subprocess.Popen[str]":
    """`cse-sweep attach` as a process of its own; it has found the sweep."""
    words = ["attach", sweep.name, "--store", sweep.stores["leaderboard"]]
    with interruptible():
        process = subprocess.Popen(
            [script("cse-sweep"), *words],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(f"{sweep.name}: ")
    return process


def test_what_ends_a_sweep_is_told(run_in_process, new_sweep: NewSweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, **SOME_FAIL, fixed={"kind": "a"})
    sweep.change(space={}, fixed={"temperature": 9.0}, search={"sampler": "random", "trials": 4})
    ran = run_in_process(sweep)
    assert ran.exit_code == 1
    error = ran.stderr.splitlines()[-1]
    _, said = followed("logs", sweep)
    assert said.splitlines()[-1] == error
    assert error.removeprefix("Error: ") in " ".join(followed("status", sweep)[1].split())
    assert followed("attach", sweep)[0] == 1


def test_a_sweep_is_attached_to_and_left(cluster: str, new_sweep: NewSweep, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.write_text("0")
    sweep = new_sweep(tmp_path, fixed={"gate": str(gate)})
    with end_of(sweep.start("--address", cluster)) as process:
        sweep.wait_for(process, TrialPoint, 1)
        with end_of(attach(sweep)) as left, end_of(attach(sweep)) as attached:
            left.send_signal(signal.SIGINT)
            assert left.wait(SECONDS) == 130
            assert process.poll() is None
            gate.write_text("6")
            said, _ = process.communicate(timeout=SECONDS)
            seen, wrong = attached.communicate(timeout=SECONDS)
    assert (process.returncode, attached.returncode, wrong) == (0, 0, "")
    ends = [line for line in said.splitlines() if line.startswith("trial ")]
    assert len(ends) == 3 and [x for x in seen.splitlines() if x.startswith("trial ")] == ends
