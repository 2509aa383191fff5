"""How many trials share a device, from what 1, 2, 4 and 8 of them get done together."""

from collections.abc import Sequence
from dataclasses import dataclass

from cse_platform.sweep.resources import Resources, Slot

TRIED_AT_ONCE = (1, 2, 4, 8)
"""So many trials at once are tried."""
NEAR_BEST = 0.95
"""Fewer trials at once are taken where they have this share of the best throughput: a search learns
more from trials that run one after another."""
ROOM = 0.9
"""The share of a device's memory that trials may fill."""


@dataclass(frozen=True)
class Throughput:
    """What so many trials get done on one device at the same time."""

    trials: int
    sentences_per_second: float
    """Of all of them together."""
    memory: float
    """The share of the memory that they filled, in [0, 1]."""

    def fit(self, trials: int) -> bool:
        """Whether another number of them has room too."""
        return self.memory / self.trials * trials <= ROOM


def fewest_near_best(measured: Sequence[Throughput]) -> Throughput:
    """The fewest trials at once that get done nearly as much as any number of them."""
    best = max(one.sentences_per_second for one in measured)
    near = [one for one in measured if one.sentences_per_second >= NEAR_BEST * best]
    return min(near, key=lambda one: one.trials)


def slots_of(resources: Resources, *, cores: float, gpus: float) -> dict[int, Slot]:
    """What a trial can occupy, by how many trials then share a GPU; or the machine, without GPUs.

    What the file leaves open is divided. Cores and GPUs are those of a machine; with fewer cores
    than trials, each trial still gets one.
    """
    if resources.gpu == "auto":
        gpu = {trials: 1 / trials for trials in TRIED_AT_ONCE}
    elif resources.gpu > 0:
        gpu = {int(1 / resources.gpu + 1e-9): resources.gpu}
    else:
        gpu = dict.fromkeys(TRIED_AT_ONCE, 0.0)
    devices = max(int(gpus), 1) if any(gpu.values()) else 1
    found = {}
    for trials, share in gpu.items():
        cpu = cores // (trials * devices) if resources.cpu == "auto" else resources.cpu
        if cpu > 0 and cpu * trials * devices <= cores:
            found[trials] = Slot(cpu, share)
    least = min(gpu)
    return found or {least: Slot(1.0 if resources.cpu == "auto" else resources.cpu, gpu[least])}
