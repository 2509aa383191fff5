"""A sweep that makes use of an earlier one: start points, sampler, pruner."""

from pathlib import Path

import cheap as _registers_it  # noqa: F401
import pytest
from sweeps import CHEAP, write_sweep

COLD = [{"temperature": one} for one in (0.1, 0.11, 0.12, 0.13, 0.14)]
HOT = {"temperature": 0.99}
ONE = {
    "space": {"temperature": {"low": 0.1, "high": 1.0}},
    "seeds": {"search": 42},
}
FIRST = {"sweep": "first", "search": {"sampler": "random", "trials": 5, "start_from": COLD}}
BY_THE_FIRST = {
    "search": {"trials": 5, "start_from": ["leaderboard", HOT], "learn_from": ["first"]},
    "pruner": {"kind": "curve", "chance": 0.9},
}


@pytest.mark.slow
def test_a_sweep_starts_learns_and_prunes_by_an_earlier_one(
    run_in_process, new_sweep, tmp_path: Path
) -> None:
    assert run_in_process(new_sweep(tmp_path, **ONE, **FIRST)).exit_code == 0
    second = write_sweep(tmp_path, CHEAP, **ONE, sweep="second", **BY_THE_FIRST)
    result = run_in_process(second)
    assert result.exit_code == 0, result.output
    assert "start_from: number 1 on mini, of first (dev " in result.output
    assert "learn_from: 5 configurations of first, 5 of them " in result.output
    *led, hot, proposed = second.history().trials.values()
    assert {trial.values["temperature"] for trial in led} <= {p["temperature"] for p in COLD}
    assert (hot.state, sorted(hot.curve)) == ("PRUNED", [0, 2])
    assert str(hot.why) in result.output
    assert proposed.values["temperature"] < 0.5
    import optuna

    study = optuna.load_study(study_name="second", storage=second.stores["search"])
    assert len(study.trials) == 5 and len(study.user_attrs["learned_from"]) == 5
    again = run_in_process(second)
    assert "is complete already" in again.output and len(second.history().trials) == 5
