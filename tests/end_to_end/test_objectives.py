"""What a search climbs: the mean of several dev sets."""

import json
from pathlib import Path

import cheap as _registers_it  # noqa: F401
import pytest
from click.testing import CliRunner
from store_contents import assert_stores_agree

from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.tracking.events import TrialPoint

pytestmark = pytest.mark.xdist_group("cluster")

BOTH = {"checkpoint": "stsb", "search": ["sickr", "stsb"]}


def test_the_mean_of_two_dev_sets(run_here, new_sweep, tmp_path: Path) -> None:
    sweep = new_sweep(tmp_path, dev=BOTH)
    result = run_here(sweep)
    assert result.exit_code == 0, result.output
    assert "best dev stsb+sickr: " in result.output
    for point in (event for event in sweep.events() if isinstance(event, TrialPoint)):
        stsb, sickr = (point.metrics[f"dev/{name}_spearman"] for name in ("stsb", "sickr"))
        assert point.value == point.metrics["dev/stsb_sickr_mean"] == (stsb + sickr) / 2
    assert_stores_agree(sweep)
    board = CliRunner().invoke(cse_leaderboard, ["--runs", str(sweep.runs), "--json"])
    (row,) = json.loads(board.output)
    assert (row["dev"]["checkpoint"], row["dev"]["search"]) == ("stsb", "stsb+sickr")
    assert row["dev_mean"] == max(one.best_value for one in sweep.history().trials.values())
    sweep.change(dev={**BOTH, "search": ["stsb", "sickr"]})  # the same mean
    assert "complete already" in run_here(sweep).output
    sweep.change(dev={**BOTH, "search": "stsb"})
    assert 'dev.search = ["stsb", "sickr"], and now it is ' in run_here(sweep).output
