import json
import sys

import cheap as _registers_it  # noqa: F401
import pytest
from lost_streams import full_disk, lost_terminal
from sweeps import CHEAP, Sweep

from cse_platform.cli.sweep import main

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("lost", [full_disk, lost_terminal])
def test_a_file_goes_on_without_its_output(
    run_in_process, new_sweep, tmp_path, monkeypatch, lost
) -> None:
    sweep = new_sweep(tmp_path)  # and its stores
    one_trial = {**CHEAP, "search": {"sampler": "random", "trials": 1}}
    stages = [{**one_trial, "sweep": "first"}, {**one_trial, "sweep": "second"}]
    sweep.file.write_text(json.dumps({"stages": stages}))
    with lost() as stdout, lost() as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        patch.setattr(sys, "stderr", stderr)
        main([str(sweep.file), "--runs", str(sweep.runs)], standalone_mode=False)
    for name in ("first", "second"):
        (trial,) = Sweep(sweep.file, sweep.runs, name).history().trials.values()
        assert trial.state == "COMPLETE"
