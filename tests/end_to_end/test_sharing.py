"""`resources: auto`: how many trials share this machine is measured, kept, and held to."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from sweeps import TINY, write_sweep

from cse_platform.runner.sharing import slots_of
from cse_platform.sweep.blocks import Resources
from cse_platform.tracking.events import TrialFinished


@pytest.mark.slow
def test_cores_are_divided_by_what_was_measured(tmp_path: Path) -> None:
    search = {"sampler": "random", "trials": 1, "seed": 3}
    changes = {"resources": {"cpu": "auto"}, "search": search, "seeds": {"search": 42}}
    cache = tmp_path / "cache"
    sweep = replace(write_sweep(tmp_path, TINY, **changes), surroundings={"CSE_CACHE": str(cache)})
    first = sweep.run()
    assert first.returncode == 0, first.stderr
    assert "sentences a second: " in first.stdout
    possible = slots_of(Resources(cpu="auto"), cores=os.cpu_count() or 1, gpus=0)
    (end,) = (event for event in sweep.events() if isinstance(event, TrialFinished))
    assert int(end.provenance["threads"]) in {slot.threads for slot in possible.values()}
    kept = {file: file.read_bytes() for file in (cache / "throughput").glob("*.json")}
    assert len(kept) == 1

    sweep.change(search=search | {"trials": 2})
    again = sweep.run()
    assert again.returncode == 0, again.stderr
    assert {file: file.read_bytes() for file in (cache / "throughput").glob("*.json")} == kept
