"""A sweep that makes use of an earlier one, by the real command: start points, sampler, pruner."""

from pathlib import Path

import cheap as _registers_it  # noqa: F401
import optuna
import pytest
from sweeps import CHEAP, write_sweep

pytestmark = pytest.mark.xdist_group("cluster")

COLD = [{"temperature": one} for one in (0.1, 0.11, 0.12, 0.13, 0.14)]
HOT = {"temperature": 0.99}


@pytest.mark.slow
def test_a_sweep_starts_learns_and_prunes_by_an_earlier_one(
    run_here, new_sweep, tmp_path: Path
) -> None:
    space = {"temperature": {"low": 0.1, "high": 1.0}}
    one = {"space": space, "resources": {"cpu": 2}, "seeds": {"search": 42}}
    search = {"sampler": "random", "trials": 5, "start_from": COLD}
    first = new_sweep(tmp_path, **one, sweep="first", search=search)
    assert run_here(first).exit_code == 0
    search = {"trials": 5, "start_from": ["leaderboard", HOT], "learn_from": ["first"]}
    pruner = {"kind": "curve", "chance": 0.9}
    second = write_sweep(tmp_path, CHEAP, **one, sweep="second", search=search, pruner=pruner)
    result = run_here(second)
    assert result.exit_code == 0, result.output
    assert "start_from: number 1 on mini, of first (dev " in result.output
    assert "learn_from: 5 configurations of first, 5 of them under the same" in result.output
    *led, hot, proposed = second.history().trials.values()
    assert {trial.values["temperature"] for trial in led} <= {p["temperature"] for p in COLD}
    assert (hot.state, sorted(hot.curve)) == ("PRUNED", [0, 2])
    assert str(hot.why) in result.output
    assert proposed.values["temperature"] < 0.5
    study = optuna.load_study(study_name="second", storage=second.stores["search"])
    assert len(study.trials) == 5 and len(study.user_attrs["learned_from"]) == 5
    again = run_here(second)
    assert "is complete already" in again.output and len(second.history().trials) == 5
