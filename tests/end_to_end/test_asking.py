from collections import Counter
from pathlib import Path

import pytest
import ray
from outside_methods import with_outside_methods
from processes import SECONDS, end_of, run_command, wait_until
from store_contents import assert_stores_agree

from cse_platform.tracking.events import SweepRequested, TrialFinished, TrialPoint

pytestmark = pytest.mark.slow


def test_stop_a_trial_and_try_another_and_extend(new_sweep, cluster, tmp_path, monkeypatch) -> None:
    sweep = new_sweep(tmp_path, gate=2)
    for name, value in with_outside_methods().items():  # the method checks what is enqueued
        monkeypatch.setenv(name, value)

    def ask(command: str, *arguments: str) -> None:
        done = run_command("cse-sweep", command, sweep.name, "--runs", str(sweep.runs), *arguments)
        assert done.returncode == 0, done.stderr

    with end_of(sweep.start("--address", cluster)) as process:
        sweep.wait_for(process, TrialPoint, 4)
        ask("stop", "--trial", "0")
        sweep.wait_for(process, TrialFinished, 1)
        assert sweep.history().unfinished()
        ask("enqueue", "--set", "temperature=0.125")
        sweep.wait_for(process, SweepRequested, 2)
        sweep.let(6)
        out, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (0, ""), out
    trials = sweep.history().trials.values()
    assert Counter(trial.state for trial in trials) == {"COMPLETE": 3, "PRUNED": 1}
    assert sum(trial.values["temperature"] == 0.125 for trial in trials) == 1
    assert_stores_agree(sweep)
    again = sweep.run("--address", cluster)
    assert "already complete" in again.stdout
    assert sweep.run("--address", cluster, "--trials", "4").returncode == 0
    assert len(sweep.history().trials) == 5


def test_a_smaller_limit_gives_up_the_slot_of_a_trial_that_ends(
    new_sweep, cluster, joined, tmp_path
) -> None:
    """One of the cluster's two, although the next trial would use its process again."""
    gates = [tmp_path / name for name in ("first", "second", "third")]
    for gate in gates:
        gate.write_text("2")
    search = {"sampler": "grid", "trials": None}
    sweep = new_sweep(tmp_path, space={"gate": [*map(str, gates)]}, search=search)
    with end_of(sweep.start("--address", cluster)) as process:
        sweep.wait_for(process, TrialPoint, 4)
        asked = run_command("cse-sweep", "limit", sweep.name, "1", "--runs", str(sweep.runs))
        assert asked.returncode == 0, asked.stderr
        sweep.wait_for(process, SweepRequested, 1)
        first, _ = sweep.history().trials.values()
        Path(first.values["gate"]).write_text("6")
        sweep.wait_for(process, TrialFinished, 1)
        wait_until(lambda: ray.available_resources().get("CPU") == 1, "a slot is free", seconds=60)
        assert len(sweep.history().trials) == 2
        for gate in gates:
            gate.write_text("6")
        out, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (0, ""), out
    assert [trial.state for trial in sweep.history().trials.values()] == ["COMPLETE"] * 3
