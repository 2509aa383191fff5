"""A sweep of a lab whose machines are hosts of their own, between which links are cut."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_hosts import Lab, lab
from processes import SECONDS, end_of
from servers import wait_until
from store_contents import assert_stores_agree
from sweeps import Sweep

from cse_platform.tracking.events import TrialPoint, TrialStarted

pytestmark = [pytest.mark.xdist_group("separate hosts"), pytest.mark.namespaces]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Lab]:
    """A cluster of four slots, on the first worker and the second."""
    try:
        with lab("first", "second", "third") as made:
            for name in ("first", "second"):
                made.start_ray(name, cpus=2)
            yield made
    except (PermissionError, FileNotFoundError) as refusal:
        pytest.skip(str(refusal))


@pytest.fixture
def pair(hosts: Lab, new_sweep, tmp_path: Path) -> Callable[..., tuple[Sweep, Sweep]]:
    """A sweep of the lab's driver, and the same where nothing disturbs it, on its own stores."""

    def make(name: str, *, by: str, trials: int, seed: int, **changes: Any) -> tuple[Sweep, Sweep]:
        folders = tmp_path / name, tmp_path / f"{name}, undisturbed"
        for folder in folders:
            folder.mkdir()
        of_both = {"search": {"sampler": "random", "trials": trials, "seed": seed}, **changes}
        of_lab = {"stores": hosts.stores, "storage": "s3://lab/cse"}
        disturbed = new_sweep(folders[0], sweep=name, **of_both, **of_lab)
        return hosts.driven(disturbed, by=by), new_sweep(folders[1], sweep=name, **of_both)

    return make


def told(sweep: Sweep, what: type[TrialPoint] | type[TrialStarted]) -> int:
    return sum(isinstance(event, what) for event in sweep.events())


def has_checkpoint(sweep: Sweep) -> bool:
    return any(isinstance(event, TrialPoint) and event.step == 2 for event in sweep.events())


def assert_nothing_is_lost_or_doubled(disturbed: Sweep, undisturbed: Sweep) -> None:
    assert undisturbed.run().returncode == 0
    assert disturbed.curves() == undisturbed.curves()
    assert_stores_agree(disturbed)


def test_two_sweeps_share_cluster_and_stores_and_a_driver_moves_to_another_host(
    hosts: Lab, pair: Callable[..., tuple[Sweep, Sweep]], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.write_text("2")  # no trial of the first driver ends, and each has a checkpoint
    moving = pair("moves", by="head", trials=16, seed=1, fixed={"gate": str(gate)})
    staying = pair("stays", by="first", trials=10, seed=2)
    moved = hosts.driven(moving[0], by="second")
    elsewhere = replace(moved, runs=moved.runs.with_name("elsewhere"))
    with end_of(staying[0].start("--address", hosts.address)) as other:
        with end_of(moving[0].start("--address", hosts.address)) as process:
            moving[0].wait_for(process, TrialPoint, 2)
            wait_until(lambda: has_checkpoint(moving[0]), "a trial waits after its checkpoint")
            staying[0].wait_for(other, TrialPoint, 3)
            for second, why in (moved, "is in use by process"), (elsewhere, "is held by process"):
                refused = second.run("--address", hosts.address)
                assert refused.returncode == 1
                assert why in refused.stderr
        gate.write_text("6")
        deadline = time.monotonic() + SECONDS
        while (done := moved.run("--address", hosts.address)).returncode:
            assert "is held by" in done.stderr  # until it was silent for a minute
            assert time.monotonic() < deadline
        _, said = other.communicate(timeout=SECONDS)
    assert other.returncode == 0, said
    assert any(trial.resumed_from for trial in moved.history().trials.values())
    for disturbed, undisturbed in (moving, staying):
        assert_nothing_is_lost_or_doubled(disturbed, undisturbed)


def test_links_that_are_cut_and_workers_that_go_lose_nothing_and_double_nothing(
    hosts: Lab, pair: Callable[..., tuple[Sweep, Sweep]]
) -> None:
    disturbed, undisturbed = pair("cut", by="head", trials=16, seed=3)
    with end_of(disturbed.start("--address", hosts.address)) as process:
        disturbed.wait_for(process, TrialPoint, 6)  # on both workers
        with hosts.hosts["first"].cut_off(seconds=30):
            disturbed.wait_for(process, TrialPoint, told(disturbed, TrialPoint) + 4)
        wait_until(lambda: not hosts.hosts["first"].runs("raylet"), "a lost node ends its Ray")
        hosts.start_ray("first", cpus=2)
        started = told(disturbed, TrialStarted)
        hosts.hosts["second"].kill()
        hosts.start_ray("third", cpus=2)
        disturbed.wait_for(process, TrialStarted, started + 4)
        with hosts.hosts["postgres"].cut_off(seconds=60):
            disturbed.wait_for(process, TrialPoint, told(disturbed, TrialPoint) + 4)
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert_nothing_is_lost_or_doubled(disturbed, undisturbed)
