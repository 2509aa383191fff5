"""A stage that takes a value which an earlier one found, in this process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
from click.testing import CliRunner
from sweeps import CHEAP, Sweep

from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.tracking.events import SweepStarted


def grid(base: dict[str, Any], name: str, fixed: dict[str, Any], **space: list[Any]) -> Any:
    kept = {key: base[key] for key in ("method", "backbone", "corpus", "data")}
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
    early = grid(CHEAP, "early", {}, temperature=[0.5, 0.05]) | {"search": search}
    late = grid(CHEAP, "late", {"temperature": {"best_of": "early"}}, kind=["a", "b"])
    sweep = of_stages(tmp_path, early, late)
    planned = run_in_process(sweep, "--dry-run")
    assert "  temperature: the best temperature of 'early', which comes later" in planned.stdout
    result = run_in_process(sweep)
    assert result.exit_code == 0, result.output
    assert "temperature=0.5 is the best temperature of 'early', trial 0" in result.output
    (begun,) = (event for event in sweep.events() if isinstance(event, SweepStarted))
    assert begun.spec["fixed"]["temperature"] == 0.5
    found = "the best temperature of 'early', trial 0"
    assert begun.provenance["fixed.temperature"].endswith(found)
    asked = CliRunner().invoke(cse_sweep, ["status", "late", "--runs", str(sweep.runs)])
    assert found in " ".join(asked.output.split())
    more = ("--set", "stages.0.search.trials=2")
    early_alone = of_stages(tmp_path, early | {"search": search | {"trials": 2}})
    assert run_in_process(early_alone).exit_code == 0
    sweep = of_stages(tmp_path, early, late)
    for how in ([*more], [*more, "--dry-run"]):
        refused = run_in_process(sweep, *how)
        assert refused.exit_code == 1
        told = refused.stderr.splitlines()[-1]
        assert told.startswith("Error: sweep 'late' was started with fixed.temperature = 0.5, ")
        assert " is 0.05 (trial 1); " in told, refused.output
    kept = run_in_process(sweep, *more, "--set", "stages.1.fixed.temperature=0.5",
                    "--set", "stages.1.space.kind=[a, b]")  # fmt: skip
    assert kept.exit_code == 0 and "late: is complete already" in kept.output
    new = run_in_process(sweep, *more, "--set", "stages.1.sweep=newer")
    assert new.exit_code == 0, new.output
    trials = Sweep(sweep.file, sweep.runs, "newer").history().trials.values()
    assert {trial.values["temperature"] for trial in trials} == {0.05}


@pytest.mark.slow
def test_a_stage_that_was_cut_off_goes_on_with_its_value(
    run_in_process: Callable[..., Any], new_sweep: Callable[..., Sweep], tmp_path: Path
) -> None:
    """Its first start ends after one trial; the second one takes the same value."""
    new_sweep(tmp_path)
    early = grid(CHEAP, "early", {}, temperature=[0.5, 0.05])
    late = grid(CHEAP, "late", {"temperature": {"best_of": "early"}}, kind=["a", "b"])
    for changes in ({"search": {"sampler": "grid", "trials": 1}}, {}):
        sweep = of_stages(tmp_path, early, late | changes)
        result = run_in_process(sweep)
        assert result.exit_code == 0, result.output
    trials = sweep.history().trials.values()
    assert [trial.values["temperature"] for trial in trials] == [0.05, 0.05]
    starts = [event for event in sweep.events() if isinstance(event, SweepStarted)]
    assert [one.spec["fixed"] for one in starts] == [{"temperature": 0.05}] * 2
