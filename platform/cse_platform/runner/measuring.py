"""Measure the speed and memory of several trials that train a few steps on one node at once."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import ray

from cse_methods.contract import TrainingConfig
from cse_methods.data.corpora import load_corpus
from cse_platform.runner.worker import as_found, prepare_process
from cse_platform.tracking.provenance import peak_memory

_STEPS = 20
"""The first half warms up, the second is timed."""


class StartLine:
    """A barrier at which trials wait for each other."""

    def __init__(self, trials: int) -> None:
        self._barrier = asyncio.Barrier(trials)

    async def wait(self) -> None:
        await self._barrier.wait()


class TimedTrial:
    """An actor that trains a few steps while others of its kind do the same."""

    def train(
        self, method: str, settings: dict[str, Any], threads: int, line: Any
    ) -> tuple[float, tuple[float, float]]:
        """Train a few steps. Returns sentences per second, and the used shares of memory."""
        from cse_platform.forecast.measured import train_some  # imports torch

        loaded_method, config = prepare_process(method, settings, threads=threads)
        assert isinstance(config, TrainingConfig)  # the driver has checked
        corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
        with as_found():
            run = _Paced(line)
            train_some(
                loaded_method, config, run, corpus=corpus, steps=_STEPS, eval_steps=_STEPS // 2
            )
            return run.sentences_per_second, _measure_memory()


class _Paced:
    """A `Run` that waits for the others at step 0, and keeps the last reported speed."""

    def __init__(self, line: Any) -> None:
        self.seed = 0
        self.resume_from: Path | None = None
        self.sentences_per_second = 0.0
        self._line = line

    def report(
        self, *, step: int, metrics: Mapping[str, float], save: Callable[[Path], None] | None = None
    ) -> None:
        del save
        if step == 0:
            ray.get(self._line.wait.remote())
        speed = metrics.get("perf/sentences_per_second", self.sentences_per_second)
        self.sentences_per_second = speed


def _measure_memory() -> tuple[float, float]:
    """Measure the used shares of the machine's memory and of the GPU's, each in [0, 1].

    The first is this process's peak over that peak plus the memory still available; the second is
    the use of all processes on the GPU.
    """
    own = int(peak_memory("cpu")["peak_memory_mib"]) << 20
    share = own / (own + psutil.virtual_memory().available)
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return share, 0.0
    free, total = torch.cuda.mem_get_info()
    return share, 1 - free / total
