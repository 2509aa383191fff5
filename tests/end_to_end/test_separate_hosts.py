from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lab_hosts import Lab, lab
from processes import SECONDS, end_of, wait_until
from store_contents import assert_stores_agree
from sweeps import CHEAP

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


def test_links_that_are_cut_and_workers_that_go_lose_nothing_and_double_nothing(
    hosts: Lab, new_sweep, tmp_path: Path
) -> None:
    """Compared with the same sweep where nothing disturbs it, on its own stores."""
    folders = tmp_path / "cut", tmp_path / "undisturbed"
    for folder in folders:
        folder.mkdir()
    many = {"search": CHEAP["search"] | {"trials": 16}}
    undisturbed = new_sweep(folders[1], **many)
    driver = hosts.hosts["head"].within
    disturbed = replace(new_sweep(folders[0], **many, stores=hosts.stores), within=driver)
    with end_of(disturbed.start("--address", hosts.address)) as process:
        disturbed.wait_for(process, TrialPoint, 6)  # on both workers
        with hosts.hosts["first"].cut_off(seconds=30):
            disturbed.wait_for(process, TrialPoint, len(disturbed.events(TrialPoint)) + 4)
        wait_until(lambda: not hosts.hosts["first"].runs("raylet"), "a lost node ends its Ray")
        hosts.start_ray("first", cpus=2)
        started = len(disturbed.events(TrialStarted))
        hosts.hosts["second"].kill()
        hosts.start_ray("third", cpus=2)
        disturbed.wait_for(process, TrialStarted, started + 4)
        with hosts.hosts["postgres"].cut_off(seconds=60):
            disturbed.wait_for(process, TrialPoint, len(disturbed.events(TrialPoint)) + 4)
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert undisturbed.run().returncode == 0
    assert disturbed.curves() == undisturbed.curves()
    assert_stores_agree(disturbed)
