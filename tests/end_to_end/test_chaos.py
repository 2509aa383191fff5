"""The short form of `make chaos`: a sweep that is broken at random moments loses nothing."""

from random import Random

import pytest
from chaos import Found, campaign, scene
from faults import ctrl_c, driver_and_children_killed, sink_process_killed, worker_killed


@pytest.mark.slow
def test_a_broken_sweep_loses_nothing_and_doubles_nothing() -> None:
    faults = (worker_killed, sink_process_killed, driver_and_children_killed, ctrl_c)
    table: dict[str, Found] = {}
    with scene(Random(42), search={"sampler": "random", "trials": 12, "seed": 6}) as broken:
        campaign(broken, faults, table)
    assert len(table) == len(faults)
    assert {(found.lost, found.doubled) for found in table.values()} == {(0, 0)}
