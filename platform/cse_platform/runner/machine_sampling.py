"""Sample CPU, memory and GPU use in a worker during training, for the metrics of dev points."""

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
"""How the samples between two dev points are reduced to one value."""


class MachineSampler:
    """Samples memory and GPU in a background thread, from its creation until `close`.

    Args:
        threads: the CPU threads of the trial; 100 % CPU means that all of them are busy.
        every: seconds between two samples.
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
        """From now on also sample the GPU of this process, if NVML knows it."""
        if self._gpu is None:
            self._gpu = _find_gpu()

    def take(self) -> dict[str, float]:
        """Return the metrics since the last call, or since the sampler was created.

        `perf/cpu_percent` is this process's CPU time over elapsed time x threads;
        `perf/memory_gib` is its resident memory, and `perf/machine_memory_percent` the memory used
        by all programs; `perf/gpu_percent`, `perf/gpu_device_memory_gib` and `perf/gpu_watts` are
        of the whole device. Memory is the maximum over samples, everything else the mean.
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
    """Find the first GPU that this process sees. Returns a sampler of it, or None without NVML."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        name = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip() or "0"
        by_index = name.isdecimal()
        find = nvml.nvmlDeviceGetHandleByIndex if by_index else nvml.nvmlDeviceGetHandleByUUID
        device = find(int(name) if by_index else name)
    except Exception:  # nvidia-ml-py is missing, or the driver is missing or does not match
        return None
    readings: dict[str, Callable[[], float]] = {
        "perf/gpu_percent": lambda: float(nvml.nvmlDeviceGetUtilizationRates(device).gpu),
        "perf/gpu_device_memory_gib": lambda: nvml.nvmlDeviceGetMemoryInfo(device).used / _GIB,
        "perf/gpu_watts": lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1000,
    }

    def sample() -> dict[str, float]:
        values = {}
        for name, read in readings.items():
            with suppress(nvml.NVMLError):  # not every device has every reading: MIG has no power
                values[name] = read()
        return values

    return sample
