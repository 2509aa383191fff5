"""How many trials share a device: what is divided among them, and which number is taken."""

from cse_platform.runner.sharing import Throughput, fewest_near_best, slots_of
from cse_platform.sweep.blocks import Resources, Slot


def test_a_machine_is_divided_among_1_2_4_and_8_trials() -> None:
    auto = Resources(cpu="auto")
    whole = slots_of(auto, cores=16, gpus=0)
    assert whole == {1: Slot(16), 2: Slot(8), 4: Slot(4), 8: Slot(2)}
    assert slots_of(auto, cores=3, gpus=0) == {1: Slot(3), 2: Slot(1)}  # no more than cores


def test_a_gpu_is_divided_with_the_cores_beside_it() -> None:
    auto = Resources(cpu="auto", gpu="auto")
    divided = {1: Slot(4, 1), 2: Slot(2, 0.5), 4: Slot(1, 0.25)}
    assert slots_of(auto, cores=16, gpus=4) == divided
    given_cores = Resources(cpu=6, gpu="auto")
    assert slots_of(given_cores, cores=16, gpus=1) == {1: Slot(6, 1), 2: Slot(6, 0.5)}
    given_share = Resources(cpu="auto", gpu=0.25)
    assert slots_of(given_share, cores=16, gpus=2) == {4: Slot(2, 0.25)}
    assert slots_of(auto, cores=2, gpus=8) == {1: Slot(1, 1)}  # with too few cores


def test_fewer_trials_win_where_more_are_hardly_faster() -> None:
    for speeds, taken in (
        ([100, 150, 180, 181], 4),
        ([100, 104], 1),
        ([100, 106], 2),
        ([100, 90, 80], 1),
    ):
        measured = [Throughput(2**n, speed, memory=0.1) for n, speed in enumerate(speeds)]
        assert fewest_near_best(measured).trials == taken, speeds


def test_trials_that_would_fill_the_memory_are_not_tried() -> None:
    two = Throughput(2, 100.0, memory=0.46)
    assert not two.fit(4)
    assert Throughput(2, 100.0, memory=0.44).fit(4)
