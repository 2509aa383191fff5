"""How many trials share a device: what is divided among them, and which number is taken."""

import pytest

from cse_platform.runner.sharing import Throughput, fewest_near_best, slots_of
from cse_platform.sweep.blocks import Resources, Slot


def test_a_machine_without_gpus_is_divided_among_1_2_4_and_8() -> None:
    slots = slots_of(Resources(cpu="auto"), cores=16, gpus=0)
    assert slots == {1: Slot(16), 2: Slot(8), 4: Slot(4), 8: Slot(2)}


def test_no_more_trials_than_cores() -> None:
    assert slots_of(Resources(cpu="auto"), cores=3, gpus=0) == {1: Slot(3), 2: Slot(1)}


def test_a_gpu_is_divided_with_the_cores_beside_it() -> None:
    slots = slots_of(Resources(cpu="auto", gpu="auto"), cores=16, gpus=4)
    assert slots == {1: Slot(4, 1), 2: Slot(2, 0.5), 4: Slot(1, 0.25)}


def test_given_cores_limit_how_many_share_a_gpu() -> None:
    assert slots_of(Resources(cpu=6, gpu="auto"), cores=16, gpus=1) == {
        1: Slot(6, 1),
        2: Slot(6, 0.5),
    }


def test_a_given_share_of_a_gpu_decides_how_many_share_it() -> None:
    assert slots_of(Resources(cpu="auto", gpu=0.25), cores=16, gpus=2) == {4: Slot(2, 0.25)}


def test_a_machine_with_too_few_cores_still_gives_a_trial_one() -> None:
    assert slots_of(Resources(cpu="auto", gpu="auto"), cores=2, gpus=8) == {1: Slot(1, 1)}


@pytest.mark.parametrize(
    ("speeds", "taken"),
    [([100, 150, 180, 181], 4), ([100, 104], 1), ([100, 106], 2), ([100, 90, 80], 1)],
)
def test_fewer_trials_win_where_more_are_hardly_faster(speeds: list[float], taken: int) -> None:
    measured = [Throughput(2**n, speed, memory=0.1) for n, speed in enumerate(speeds)]
    assert fewest_near_best(measured).trials == taken


def test_trials_that_would_fill_the_memory_are_not_tried() -> None:
    two = Throughput(2, 100.0, memory=0.46)
    assert not two.fit(4)
    assert Throughput(2, 100.0, memory=0.44).fit(4)
