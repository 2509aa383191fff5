"""What a worker samples of its machine between two dev points."""

import sys
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from cse_platform.runner.machine_sampling import MachineSampler

GIB = 2**30
NEVER = 3600.0


class NVMLError(Exception):
    """As NVML's own."""


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Any:
    """NVML, as its package has it, of a machine with two GPUs; power is not known there."""

    def refuse(device: str) -> int:
        raise NVMLError("not supported")

    readings = iter([(20, 3 * GIB), (60, 5 * GIB), (90, 1 * GIB)])
    read: dict[str, int] = {}

    def utilisation(device: str) -> Any:
        assert device == "GPU-b"
        read["percent"], read["used"] = next(readings)
        return SimpleNamespace(gpu=read["percent"])

    fake = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: ["GPU-a", "GPU-b"][index],
        nvmlDeviceGetHandleByUUID=lambda name: name,
        nvmlDeviceGetUtilizationRates=utilisation,
        nvmlDeviceGetMemoryInfo=lambda device: SimpleNamespace(used=read["used"]),
        nvmlDeviceGetPowerUsage=refuse,
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.mark.parametrize("visible", ["1", "GPU-b,GPU-a"])
def test_a_gpu_has_the_mean_of_its_utilisation_and_the_most_of_its_memory(
    nvml, monkeypatch, visible
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with closing(MachineSampler(1, every=NEVER)) as sampler:
        sampler.watch_gpu()
        sampler._add_sample()
        taken, then = sampler.take(), sampler.take()
    assert {name: value for name, value in taken.items() if "gpu" in name} == {
        "perf/gpu_percent": (20 + 60) / 2,
        "perf/gpu_device_memory_gib": 5.0,
    }
    assert then["perf/gpu_percent"] == 90  # what came before has gone


def test_without_nvml_there_is_no_gpu(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with closing(MachineSampler(1, every=NEVER)) as sampler:
        sampler.watch_gpu()
        assert not [name for name in sampler.take() if "gpu" in name]
