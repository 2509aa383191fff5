import json
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
from commands import invoke
from store_contents import assert_stores_agree
from sweeps import Sweep

from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.tracking.events import TrialPoint

BOTH = {"checkpoint": ["sickr", "stsb"], "search": ["sickr", "stsb"]}
COLD, HOT, WARM = ({"temperature": one} for one in (0.1, 0.9, 0.5))
"""The lower the temperature, the higher both scores."""
AIMS = {
    "sampler": "random",
    "trials": 3,
    "start_from": [COLD, HOT, WARM],
    "objectives": ["stsb", {"name": "sickr", "direction": "minimize"}],
    "constraints": ["sickr >= 0.15"],
}
"""All three would be on the front, and the hot one breaks the constraint."""


def asked(command: Any, sweep: Sweep, *words: str) -> Any:
    result = invoke(command, *words, "--runs", sweep.runs, "--json")
    return json.loads(result.stdout)


def study_of(sweep: Sweep) -> Any:
    import optuna

    return optuna.load_study(study_name=sweep.name, storage=sweep.stores["search"])


@pytest.mark.slow
def test_the_mean_of_two_dev_sets(run_in_process, new_sweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, dev=BOTH)
    result = run_in_process(sweep)
    assert "best dev stsb+sickr: " in result.output
    for point in (event for event in sweep.events() if isinstance(event, TrialPoint)):
        stsb, sickr = (point.metrics[f"dev/{name}_spearman"] for name in ("stsb", "sickr"))
        assert point.value == point.metrics["dev/stsb_sickr_mean"] == (stsb + sickr) / 2
    assert_stores_agree(sweep)
    (row,) = asked(cse_leaderboard, sweep)
    assert (row["dev"]["checkpoint"], row["dev"]["search"]) == ("stsb+sickr", "stsb+sickr")
    assert row["dev_mean"] == max(one.best_value for one in sweep.history().trials.values())
    sweep.change(dev={**BOTH, "search": ["stsb", "sickr"]})  # the same mean
    assert "already complete" in run_in_process(sweep).output
    sweep.change(dev={**BOTH, "search": "stsb"})
    refused = run_in_process(sweep, code=1)
    assert 'dev.search = ["stsb", "sickr"], and now it is ' in refused.output


def test_a_front_under_a_constraint(run_in_process, new_sweep, tmp_path: Path) -> None:
    sweep = new_sweep(
        tmp_path, search=AIMS, seeds={"search": 42, "confirm": {"top": 3, "seeds": [1]}}
    )
    planned = run_in_process(sweep, "--dry-run")
    assert "; objectives stsb (maximize), sickr (minimize); with sickr >= 0.15" in planned.output
    result = run_in_process(sweep)
    trials = list(sweep.history().trials.values())
    assert [trial.state for trial in trials] == ["COMPLETE"] * 5
    assert [one.values["temperature"] for one in trials[3:]] == [0.1, 0.5]  # not the hot one
    assert "2 on the Pareto front of" in result.output
    assert_stores_agree(sweep)

    for told in study_of(sweep).trials:
        trial = trials[told.user_attrs["number"]]
        stsb, sickr = (trial.best_metrics[f"dev/{name}_spearman"] for name in ("stsb", "sickr"))
        assert told.values == [stsb, sickr]
        assert told.constraints == {"sickr >= 0.15": pytest.approx(0.15 - sickr)}

    front = asked(cse_leaderboard, sweep, "compare", "--front", sweep.name)
    rows = {row["trial"]: row for row in front["rows"]}
    assert [rows[n]["on_front"] for n in range(3)] == [True, False, True]
    assert [rows[n]["feasible"] for n in range(3)] == [True, False, True]
    assert rows[0]["seeds"] == [42, 1]
    mean = (trials[0].best_value + trials[3].best_value) / 2
    assert rows[0]["measured"]["stsb"] == pytest.approx(mean)

    (overview,) = asked(cse_sweep, sweep, "status", sweep.name)
    assert (overview["infeasible"], overview["best"]["values"]) == (1, COLD)
    sweep.change(search={**AIMS, "constraints": []})
    assert "search.constraints" in run_in_process(sweep, code=1).output


@pytest.mark.slow
def test_a_reused_trial_has_what_it_measured(run_in_process, new_sweep, tmp_path: Path) -> None:
    first = new_sweep(tmp_path, search={**AIMS, "trials": 1})
    run_in_process(first)
    first.change(sweep="second", search={**AIMS, "trials": 1, "objectives": ["stsb", "seconds"]})
    assert "reused from tiny" in run_in_process(first).output
    second = Sweep(first.file, first.runs, "second")
    (trial,) = second.history().trials.values()
    (ran,) = first.history().trials.values()
    assert trial.wall_seconds == ran.wall_seconds > 0
    assert study_of(second).trials[0].values == [ran.best_value, ran.wall_seconds]
