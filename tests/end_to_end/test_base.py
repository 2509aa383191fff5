"""A method on another one, by the real command."""

import json
from pathlib import Path
from typing import Any

import pytest
from sweeps import TINY, Sweep

ON_MIXCSE: dict[str, Any] = TINY | {
    "method": "rankcse",
    "fixed": {**TINY["fixed"], "teachers": "mini", "base": "mixcse"},
    "space": {"base_mix_weight": {"low": 0.1, "high": 0.4}},
    "search": {"sampler": "random", "trials": 2, "seed": 3},
    "seeds": {"search": 42},
}


@pytest.mark.slow
def test_the_setting_of_a_base_is_searched(tmp_path: Path) -> None:
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(ON_MIXCSE))
    sweep = Sweep(file, tmp_path / "runs", "tiny")
    ended = sweep.run()
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    trials = sweep.history().trials.values()
    assert len({trial.values["base_mix_weight"] for trial in trials}) == 2
    for trial in trials:
        assert (trial.state, trial.values["base"]) == ("COMPLETE", "mixcse")
        parts = {"train/loss_contrastive", "train/loss_consistency", "train/loss_rank"}
        assert parts <= trial.last_metrics.keys()
    again = sweep.run()
    assert (again.returncode, again.stderr) == (0, ""), again.stdout
    assert len(sweep.history().trials) == 2
