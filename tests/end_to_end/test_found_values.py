"""A stage that takes a value which an earlier one found, by the real command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
from processes import run_command
from sweeps import CHEAP, TINY, Sweep

from cse_platform.tracking.events import SweepStarted

SMALL: dict[str, Any] = {"max_steps": 2, "eval_steps": 1, "batch_size": 8}


def grid(base: dict[str, Any], name: str, fixed: dict[str, Any], **space: list[Any]) -> Any:
    kept = {key: base[key] for key in ("method", "backbone", "corpus", "data")}
    return kept | {"sweep": name, "fixed": fixed, "space": space, "search": {"sampler": "grid"}}


def of_stages(folder: Path, *stages: Any) -> Sweep:
    """A file of stages; what is asked of the sweep is asked of the last one."""
    file = folder / "stages.yaml"
    file.write_text(json.dumps({"stages": stages}))
    return Sweep(file, folder / "runs", stages[-1]["sweep"])


@pytest.mark.slow
def test_the_paper_way_to_search_on_mini(tmp_path: Path) -> None:
    """One hyperparameter at a fixed learning rate, then the learning rate at the best of it."""
    first = grid(TINY, "warm", SMALL | {"learning_rate": 1e-3}, temperature=[0.05, 2.0])
    second = grid(
        TINY, "rate", SMALL | {"temperature": {"best_of": "warm"}}, learning_rate=[1e-4, 1e-3]
    )
    sweep = of_stages(tmp_path, first, second)
    planned = sweep.run("--dry-run")
    assert (planned.returncode, sweep.runs.exists()) == (0, False), planned.stderr
    assert "  temperature: the best temperature of 'warm', which comes later" in planned.stdout
    ended = sweep.run()
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    tried = Sweep(sweep.file, sweep.runs, "warm").history().trials.values()
    best = max(tried, key=lambda trial: trial.best_value or 0)
    told = (
        f"temperature={best.values['temperature']} is the best temperature of 'warm', "
        f"trial {best.number}"
    )
    assert told in ended.stdout
    trials = sweep.history().trials.values()
    assert {trial.values["temperature"] for trial in trials} == {best.values["temperature"]}
    # The rate that the first stage has used is not trained again.
    assert [trial.reused_from for trial in trials] == [None, "warm"]
    (begun,) = (event for event in sweep.events() if isinstance(event, SweepStarted))
    assert begun.spec["fixed"]["temperature"] == best.values["temperature"]
    assert begun.provenance["fixed.temperature"] == told.partition(" is ")[2]
    runs = ("--runs", str(sweep.runs))
    assert told in run_command("cse-sweep", "status", "rate", *runs).stdout
    shown = run_command("cse-leaderboard", "show", "rate#0", *runs).stdout
    assert told.partition(" is ")[2] in shown
    before = sweep.journal_file.read_bytes()
    again = sweep.run()
    assert (again.returncode, again.stderr) == (0, "")
    assert "rate: is complete already" in again.stdout
    assert sweep.journal_file.read_bytes() == before


def test_an_earlier_stage_that_finds_better_is_refused_with_the_way_out(
    run_here: Callable[..., Any], new_sweep: Callable[..., Sweep], tmp_path: Path
) -> None:
    new_sweep(tmp_path)  # the stores
    worse_first = [{"temperature": 0.5}, {"temperature": 0.05}]
    search = {"sampler": "random", "trials": 1, "start_from": worse_first}
    early = grid(CHEAP, "early", {}, temperature=[0.5, 0.05]) | {"search": search}
    late = grid(CHEAP, "late", {"temperature": {"best_of": "early"}}, kind=["a", "b"])
    sweep = of_stages(tmp_path, early, late)
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    assert "temperature=0.5 is the best temperature of 'early', trial 0" in result.output
    more = ("--set", "stages.0.search.trials=2")
    early_alone = of_stages(tmp_path, early | {"search": search | {"trials": 2}})
    assert run_here(early_alone).exit_code == 0
    sweep = of_stages(tmp_path, early, late)
    for how in ([*more], [*more, "--dry-run"]):
        refused = run_here(sweep, *how)
        assert refused.exit_code == 1
        told = refused.stderr.splitlines()[-1]
        assert told.startswith("Error: sweep 'late' was started with fixed.temperature = 0.5, ")
        assert " is 0.05 (trial 1); " in told, refused.output
    kept = run_here(sweep, *more, "--set", "stages.1.fixed.temperature=0.5",
                    "--set", "stages.1.space.kind=[a, b]")  # fmt: skip
    assert kept.exit_code == 0 and "late: is complete already" in kept.output
    new = run_here(sweep, *more, "--set", "stages.1.sweep=newer")
    assert new.exit_code == 0, new.output
    trials = Sweep(sweep.file, sweep.runs, "newer").history().trials.values()
    assert {trial.values["temperature"] for trial in trials} == {0.05}


def test_a_stage_that_was_cut_off_goes_on_with_its_value(
    run_here: Callable[..., Any], new_sweep: Callable[..., Sweep], tmp_path: Path
) -> None:
    """Its first start ends after one trial; the second one takes the same value."""
    new_sweep(tmp_path)
    early = grid(CHEAP, "early", {}, temperature=[0.5, 0.05])
    late = grid(CHEAP, "late", {"temperature": {"best_of": "early"}}, kind=["a", "b"])
    sweep = of_stages(tmp_path, early, late | {"search": {"sampler": "grid", "trials": 1}})
    assert run_here(sweep).exit_code == 0
    longer = of_stages(tmp_path, early, late)
    result = run_here(longer)
    assert result.exit_code == 0, result.output
    trials = longer.history().trials.values()
    assert [trial.values["temperature"] for trial in trials] == [0.05, 0.05]
    starts = [event for event in longer.events() if isinstance(event, SweepStarted)]
    assert [one.spec["fixed"] for one in starts] == [{"temperature": 0.05}] * 2
