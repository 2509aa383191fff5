"""A sweep on a cluster that grows by demand."""

from pathlib import Path

import pytest
from growing_ray import growing_ray
from processes import SECONDS, end_of

from cse_platform.tracking.events import TrialStarted

pytestmark = [pytest.mark.xdist_group("cluster nodes"), pytest.mark.slow]


def test_the_cluster_grows_to_what_the_sweep_can_use(new_sweep, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.write_text("0")
    four = {"search": {"sampler": "random", "trials": 4, "seed": 6}}
    sweep = new_sweep(tmp_path, **four, fixed={"gate": str(gate)})
    with growing_ray(tmp_path, cpus=2, at_first=1, at_most=5) as nodes:
        with end_of(sweep.start("--address", nodes.address)) as process:
            sweep.wait_for(process, TrialStarted, 4)  # the first node has room for two
            gate.write_text("6")
            _, said = process.communicate(timeout=SECONDS)
        assert nodes.count() == 1 + 2  # the head, and no more than four trials take
    assert (process.returncode, said) == (0, "")
