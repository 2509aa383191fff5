"""Samples in a worker what its machine does while a trial trains, for the metrics of dev points."""

import importlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from statistics import fmean
from typing import Any

import psutil

SAMPLE_SECONDS = 1.0
"""Seconds between two samples, each of which takes less than a millisecond."""
_GIB, _PERCENT = 2**30, 100.0
_SHOWN: dict[str, Callable[[list[float]], float]] = {
    "perf/memory_gib": max,
    "perf/machine_memory_percent": max,
    "perf/gpu_percent": fmean,
    "perf/gpu_device_memory_gib": max,
    "perf/gpu_watts": fmean,
}
"""What stands for the samples between two dev points."""


class MachineSampler:
    """Samples memory and GPU in a thread of its own, from its first call until `close`.

    Args:
        threads: the CPU threads of the trial; all of them busy are 100 %.
        every: seconds from a sample to the next.
    """

    def __init__(self, threads: int, *, every: float = SAMPLE_SECONDS) -> None:
        self._threads, self._every = threads, every
        self._process = psutil.Process()
        self._gpu: Callable[[], dict[str, float]] | None = None
        self._samples: dict[str, list[float]] = defaultdict(list)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._since = time.perf_counter(), time.process_time()
        self._thread = threading.Thread(target=self._sample_forever, name="machine", daemon=True)
        self._thread.start()

    def watch_gpu(self) -> None:
        """Sample the GPU of this process, too, from now on, if NVML knows it."""
        if self._gpu is None:
            self._gpu = _find_gpu()

    def take(self) -> dict[str, float]:
        """Return the metrics of the time since the last call, or since the beginning.

        `perf/cpu_percent` is the CPU time of this process by the time of its threads;
        `perf/memory_gib` is what it holds in RAM, and `perf/machine_memory_percent` what all
        programs do; `perf/gpu_percent`, `perf/gpu_device_memory_gib` and `perf/gpu_watts` are of
        the whole device. Memory is the most of any sample, the others are means.
        """
        self._add_sample()
        with self._lock:
            samples, self._samples = self._samples, defaultdict(list)
            then, self._since = self._since, (time.perf_counter(), time.process_time())
        passed, busy = (now - before for now, before in zip(self._since, then, strict=True))
        cpu = {"perf/cpu_percent": _PERCENT * busy / (passed * self._threads)} if passed else {}
        return cpu | {name: _SHOWN[name](values) for name, values in samples.items()}

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _sample_forever(self) -> None:
        while not self._closed.wait(self._every):
            self._add_sample()

    def _add_sample(self) -> None:
        with self._lock:
            with suppress(psutil.Error):
                self._samples["perf/memory_gib"].append(self._process.memory_info().rss / _GIB)
                used = psutil.virtual_memory().percent
                self._samples["perf/machine_memory_percent"].append(used)
            for name, value in (self._gpu() if self._gpu else {}).items():
                self._samples[name].append(value)


def _find_gpu() -> Callable[[], dict[str, float]] | None:
    """Find the first GPU that this process sees. Returns what samples it; None without NVML."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        name = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip() or "0"
        device = (
            nvml.nvmlDeviceGetHandleByIndex(int(name))
            if name.isdecimal()
            else nvml.nvmlDeviceGetHandleByUUID(name)
        )
    except Exception:  # nvidia-ml-py is not installed, or the driver is not there or another one
        return None
    readings: dict[str, Callable[[], float]] = {
        "perf/gpu_percent": lambda: float(nvml.nvmlDeviceGetUtilizationRates(device).gpu),
        "perf/gpu_device_memory_gib": lambda: nvml.nvmlDeviceGetMemoryInfo(device).used / _GIB,
        "perf/gpu_watts": lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
    }

    def sample() -> dict[str, float]:
        values = {}
        for name, read in readings.items():
            with suppress(nvml.NVMLError):  # one that this device does not have, as power of MIG
                values[name] = read()
        return values

    return sample
