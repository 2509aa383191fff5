"""A sweep that makes use of an earlier one: a stage's value, start points, sampler, pruner."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
from sweeps import CHEAP, Sweep, write_sweep

from cse_platform.tracking.events import SweepStarted


def grid(name: str, fixed: dict[str, Any], **space: list[Any]) -> Any:
    kept = {key: CHEAP[key] for key in ("method", "backbone", "corpus", "data")}
    return kept | {"sweep": name, "fixed": fixed, "space": space, "search": {"sampler": "grid"}}


def of_stages(folder: Path, *stages: Any) -> Sweep:
    """A file of stages; what is asked of the sweep is asked of the last one."""
    file = folder / "stages.yaml"
    file.write_text(json.dumps({"stages": stages}))
    return Sweep(file, folder / "runs", stages[-1]["sweep"])


@pytest.mark.slow
def test_an_earlier_stage_that_finds_better_is_refused_with_the_way_out(
    run_in_process: Callable[..., Any], new_sweep: Callable[..., Sweep], tmp_path: Path
) -> None:
    new_sweep(tmp_path)  # the stores
    worse_first = [{"temperature": 0.5}, {"temperature": 0.05}]
    search = {"sampler": "random", "trials": 1, "start_from": worse_first}
    early = grid("early", {}, temperature=[0.5, 0.05]) | {"search": search}
    late = grid("late", {"temperature": {"best_of": "early"}}, kind=["a", "b"])
    sweep = of_stages(tmp_path, early, late)
    result = run_in_process(sweep)
    assert result.exit_code == 0, result.output
    assert "temperature=0.5 is the best temperature of 'early', trial 0" in result.output
    (begun,) = (event for event in sweep.events() if isinstance(event, SweepStarted))
    assert begun.spec["fixed"]["temperature"] == 0.5
    more = ("--set", "stages.0.search.trials=2")
    early_alone = of_stages(tmp_path, early | {"search": search | {"trials": 2}})
    assert run_in_process(early_alone).exit_code == 0
    sweep = of_stages(tmp_path, early, late)
    refused = run_in_process(sweep, *more)
    assert refused.exit_code == 1
    told = refused.stderr.splitlines()[-1]
    assert told.startswith("Error: sweep 'late' was started with fixed.temperature = 0.5, ")
    assert " is 0.05 (trial 1); " in told, refused.output
    new = run_in_process(sweep, *more, "--set", "stages.1.sweep=newer")
    assert new.exit_code == 0, new.output
    trials = Sweep(sweep.file, sweep.runs, "newer").history().trials.values()
    assert {trial.values["temperature"] for trial in trials} == {0.05}


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
