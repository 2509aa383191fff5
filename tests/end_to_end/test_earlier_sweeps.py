"""A sweep that makes use of an earlier one, by the real command: start points, sampler, pruner."""

from pathlib import Path

import cheap as _registers_it  # noqa: F401
import optuna
import pytest
from processes import end_of
from sweeps import CHEAP, write_sweep

from cse_platform.tracking.events import SweepStarted, TrialPoint

COLD = [{"temperature": one} for one in (0.1, 0.11, 0.12, 0.13, 0.14)]
HOT = {"temperature": 0.99}
ONE = {
    "space": {"temperature": {"low": 0.1, "high": 1.0}},
    "resources": {"cpu": 2},
    "seeds": {"search": 42},
}
FIRST = {"sweep": "first", "search": {"sampler": "random", "trials": 5, "start_from": COLD}}
BY_THE_FIRST = {
    "search": {"trials": 5, "start_from": ["leaderboard", HOT], "learn_from": ["first"]},
    "pruner": {"kind": "curve", "chance": 0.9},
}


@pytest.mark.slow
def test_a_sweep_starts_learns_and_prunes_by_an_earlier_one(
    run_here, new_sweep, tmp_path: Path
) -> None:
    assert run_here(new_sweep(tmp_path, **ONE, **FIRST)).exit_code == 0
    second = write_sweep(tmp_path, CHEAP, **ONE, sweep="second", **BY_THE_FIRST)
    result = run_here(second)
    assert result.exit_code == 0, result.output
    assert "start_from: number 1 on mini, of first (dev " in result.output
    assert "learn_from: 5 configurations of first, 5 of them " in result.output
    *led, hot, proposed = second.history().trials.values()
    assert {trial.values["temperature"] for trial in led} <= {p["temperature"] for p in COLD}
    assert (hot.state, sorted(hot.curve)) == ("PRUNED", [0, 2])
    assert str(hot.why) in result.output
    assert proposed.values["temperature"] < 0.5
    study = optuna.load_study(study_name="second", storage=second.stores["search"])
    assert len(study.trials) == 5 and len(study.user_attrs["learned_from"]) == 5
    again = run_here(second)
    assert "is complete already" in again.output and len(second.history().trials) == 5


@pytest.mark.slow
def test_killed_driver_goes_on_with_the_same_evidence(run_here, new_sweep, tmp_path: Path) -> None:
    """Killed while the trial runs that the rule stops: it is stopped by the same command."""
    assert run_here(new_sweep(tmp_path, **ONE, **FIRST)).exit_code == 0
    gated = BY_THE_FIRST | {"fixed": {"gate": str(tmp_path / "gate")}}
    (tmp_path / "gate").write_text("0")
    second = write_sweep(tmp_path, CHEAP, **ONE, sweep="second", **gated)
    with end_of(second.start()) as process:
        second.wait_for(process, TrialPoint, 1)
        process.kill()
        process.wait()
    (started,) = (event for event in second.events() if isinstance(event, SweepStarted))
    (tmp_path / "gate").write_text("99")
    assert second.run().returncode == 0
    trials = list(second.history().trials.values())
    assert len(trials) == 5
    led = [{"temperature": trial.values["temperature"]} for trial in trials[:3]]
    assert all(point in COLD for point in led) and trials[3].searched_values == HOT
    assert (trials[3].state, sorted(trials[3].curve)) == ("PRUNED", [0, 2])
    starts = [event for event in second.events() if isinstance(event, SweepStarted)]
    assert len(starts) == 2
    assert (starts[1].leaders, starts[1].learned) == (started.leaders, started.learned)
