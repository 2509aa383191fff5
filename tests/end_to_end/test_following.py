"""A sweep is followed from elsewhere, by its leaderboard alone."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import bad as _registers_it  # noqa: F401
import pytest
from cheap import TOO_HOT
from click.testing import CliRunner
from processes import SECONDS, end_of, environment, interruptible, script
from sweeps import Sweep

from cse_platform.cli.sweep import main
from cse_platform.tracking.events import DriverMessage, TrialPoint

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


def test_logs_are_the_lines_of_the_run(run_here, new_sweep: NewSweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, **SOME_FAIL)
    ran = run_here(sweep)
    assert ran.exit_code == 0, ran.output
    lines = re.findall(r"^trial +\d.*$", ran.stdout, re.MULTILINE)
    assert {line.split()[2] for line in lines} == {"COMPLETE", "FAIL"}
    assert followed("logs", sweep) == (0, "".join(f"{line}\n" for line in lines))
    code, said = followed("attach", sweep)
    assert code == 0 and said.startswith("tiny: 4 of 4 trials · best ")


@pytest.mark.slow
def test_logs_tell_of_what_was_reused(run_here, new_sweep: NewSweep, tmp_path: Path) -> None:
    first = new_sweep(tmp_path)
    assert run_here(first).exit_code == 0
    second = Sweep(first.file, first.runs, "second")
    ran = run_here(second, "--set", "sweep=second")
    lines = [line for line in ran.stdout.splitlines() if line.startswith("trial ")]
    assert all(line.endswith("reused from tiny (same code)") for line in lines)
    assert followed("logs", second) == (0, "".join(f"{line}\n" for line in lines))


@pytest.mark.slow
def test_what_ends_a_sweep_is_told(run_here, new_sweep: NewSweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, **SOME_FAIL, fixed={"kind": "a"})
    sweep.change(space={}, fixed={"temperature": 9.0}, search={"sampler": "random", "trials": 4})
    ran = run_here(sweep)
    assert ran.exit_code == 1
    error = ran.stderr.splitlines()[-1]
    _, said = followed("logs", sweep)
    assert said.splitlines()[-1] == error
    assert error.removeprefix("Error: ") in " ".join(followed("status", sweep)[1].split())
    assert followed("attach", sweep)[0] == 1


@pytest.mark.slow
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


def test_a_searched_setting_that_nothing_reads_is_warned_of_once(
    run_here, new_sweep: NewSweep, tmp_path: Path
) -> None:
    """The method reads which way to go, and nothing of how long a sentence may be."""
    space = {"way": ["well", "returned nothing"], "max_length": [16, 32]}
    sweep = new_sweep(tmp_path, method="bad", space=space, search={"sampler": "grid"})
    ran = run_here(sweep)
    assert ran.exit_code == 0, ran.output
    messages = [event.text for event in sweep.events() if isinstance(event, DriverMessage)]
    [warning] = [text for text in messages if "never read" in text]
    assert re.match(r"trial \d never read max_length, which the search turns: ", warning)
