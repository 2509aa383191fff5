"""A sweep of a lab whose machines are hosts of their own, between which links are cut."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_hosts import Lab, lab
from processes import SECONDS, end_of
from store_contents import assert_stores_agree
from sweeps import Sweep

from cse_platform.tracking.events import TrialPoint, TrialStarted

pytestmark = [pytest.mark.xdist_group("separate hosts"), pytest.mark.namespaces]

SEARCH = {"sampler": "random", "trials": 16, "seed": 6}


@pytest.fixture(scope="module")
def hosts() -> Iterator[Lab]:
    try:
        with lab("first", "second", "third") as made:
            yield made
    except (PermissionError, FileNotFoundError) as refusal:
        pytest.skip(str(refusal))


def told(sweep: Sweep, what: type[TrialPoint] | type[TrialStarted]) -> int:
    return sum(isinstance(event, what) for event in sweep.events())


def test_links_that_are_cut_and_workers_that_go_lose_nothing_and_double_nothing(
    hosts: Lab, new_sweep, tmp_path: Path
) -> None:
    folders = tmp_path / "disturbed", tmp_path / "undisturbed"
    for folder in folders:
        folder.mkdir()
    undisturbed = new_sweep(folders[1], search=SEARCH)
    assert undisturbed.run().returncode == 0
    storage = {"stores": hosts.stores, "storage": "s3://lab/cse"}
    disturbed = hosts.driven(new_sweep(folders[0], search=SEARCH, **storage))
    for name in ("first", "second"):
        hosts.start_ray(name, cpus=2)

    with end_of(disturbed.start("--address", hosts.address)) as process:
        disturbed.wait_for(process, TrialPoint, 6)  # on both workers
        with hosts.hosts["first"].cut_off(seconds=30):
            disturbed.wait_for(process, TrialPoint, told(disturbed, TrialPoint) + 4)
        hosts.hosts["first"].kill()
        hosts.start_ray("first", cpus=2)
        started = told(disturbed, TrialStarted)
        hosts.hosts["second"].kill()
        hosts.start_ray("third", cpus=2)
        disturbed.wait_for(process, TrialStarted, started + 4)
        with hosts.hosts["postgres"].cut_off(seconds=60):
            disturbed.wait_for(process, TrialPoint, told(disturbed, TrialPoint) + 4)
        _, said = process.communicate(timeout=SECONDS)

    assert process.returncode == 0, said
    assert disturbed.curves() == undisturbed.curves()
    assert_stores_agree(disturbed)
