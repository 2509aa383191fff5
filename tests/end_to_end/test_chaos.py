"""The short form of `make chaos`: a sweep that is broken at random moments loses nothing."""

from random import Random

import pytest
from chaos import Found, campaign, scene
from faults import (
    Fault,
    backup_killed,
    ctrl_c,
    driver_and_children_killed,
    upgrade_killed,
    worker_killed,
)
from upkeep import kill_commands


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "trials"),
    [
        ((worker_killed, driver_and_children_killed, ctrl_c), 12),
        ((backup_killed, upgrade_killed), 32),
    ],
    ids=["processes", "upkeep"],
)
def test_a_broken_sweep_loses_nothing_and_doubles_nothing(
    faults: tuple[Fault, ...], trials: int
) -> None:
    table: dict[str, Found] = {}
    with scene(Random(42), search={"sampler": "random", "trials": trials, "seed": 6}) as broken:
        campaign(broken, faults, table)
    assert len(table) == len(faults)
    assert {(found.lost, found.doubled) for found in table.values()} == {(0, 0)}


@pytest.mark.slow
def test_a_sweep_is_archived_and_deleted_by_commands_that_are_killed() -> None:
    killed = list(kill_commands(Random(42), kills=2))
    assert {name for name, _, _ in killed} == {
        "archive killed",
        "unarchive killed",
        "delete killed",
    }
    assert [wrong for _, _, wrong in killed if wrong] == []
