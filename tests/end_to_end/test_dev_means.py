import json
from pathlib import Path

import cheap as _registers_it  # noqa: F401
import pytest
from commands import invoke
from store_contents import assert_stores_agree

from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.tracking.events import TrialPoint

BOTH = {"checkpoint": ["sickr", "stsb"], "search": ["sickr", "stsb"]}


@pytest.mark.slow
def test_the_mean_of_two_dev_sets(run_in_process, new_sweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, dev=BOTH)
    result = run_in_process(sweep)
    assert "best dev stsb+sickr: " in result.output
    for point in (event for event in sweep.events() if isinstance(event, TrialPoint)):
        stsb, sickr = (point.metrics[f"dev/{name}_spearman"] for name in ("stsb", "sickr"))
        assert point.value == point.metrics["dev/stsb_sickr_mean"] == (stsb + sickr) / 2
    assert_stores_agree(sweep)
    (row,) = json.loads(invoke(cse_leaderboard, "--runs", sweep.runs, "--json").stdout)
    assert (row["dev"]["checkpoint"], row["dev"]["search"]) == ("stsb+sickr", "stsb+sickr")
    assert row["dev_mean"] == max(one.best_value for one in sweep.history().trials.values())
    sweep.change(dev={**BOTH, "search": ["stsb", "sickr"]})  # the same mean
    assert "already complete" in run_in_process(sweep).output
    sweep.change(dev={**BOTH, "search": "stsb"})
    refused = run_in_process(sweep, code=1)
    assert 'dev.search = ["stsb", "sickr"], and now it is ' in refused.output
