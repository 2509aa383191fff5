import sys
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from processes import python

from cse_platform.runner.machine_sampling import MachineSampler

BEFORE_THE_METHOD = """
import sys
import cse_platform.runner.worker, cse_platform.tracking.packing, cse_platform.tracking.history
heavy = {"torch", "transformers", "sklearn", "mlflow", "optuna", "sqlalchemy"} & set(sys.modules)
opens_test_sets = [name for name in sys.modules if name.startswith("cse_methods.evaluation")]
assert not heavy and not opens_test_sets, (heavy, opens_test_sets)
import cse_platform.launch.run  # which is of the driver
heavy = {"torch", "transformers", "scipy.stats", "mlflow"} & set(sys.modules)
assert not heavy, heavy
"""
A_TRIAL = """
import sys, tempfile
from pathlib import Path
from cse_methods.testing import train_once
short = {"backbone": "mini", "max_steps": 1, "dev": {"checkpoint": "sickr", "search": "sickr"}}
train_once("simcse", short, folder=Path(tempfile.mkdtemp()))
unused = {"mlflow", "optuna", "sqlalchemy", "alembic", "sklearn", "plotly", "datasets", "flask"}
assert not unused & set(sys.modules), unused & set(sys.modules)
"""
"""Ray itself imports pandas."""


def test_worker_and_driver_start_without_torch_and_open_no_test_set() -> None:
    """Torch takes seconds to import, which a worker's method may not need and a driver does not."""
    python(BEFORE_THE_METHOD)


@pytest.mark.slow
def test_a_trial_imports_only_what_it_uses() -> None:
    python(A_TRIAL)


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
def test_a_gpu_has_its_mean_utilisation_and_peak_memory(nvml, monkeypatch, visible) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with closing(MachineSampler(1, every=NEVER)) as sampler:
        sampler.watch_gpu()
        sampler._add_sample()
        taken, then = sampler.take(), sampler.take()
    expected = {"perf/gpu_percent": (20 + 60) / 2, "perf/gpu_device_memory_gib": 5.0}
    assert {name: value for name, value in taken.items() if "gpu" in name} == expected
    assert then["perf/gpu_percent"] == 90  # what came before has gone


def test_without_nvml_there_is_no_gpu(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with closing(MachineSampler(1, every=NEVER)) as sampler:
        sampler.watch_gpu()
        assert not [name for name in sampler.take() if "gpu" in name]
