"""Trains a few steps in several processes of a node at once; they need what a trial needs."""

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
"""The first half warms up, the second is measured."""


class StartLine:
    """A barrier at which trials wait for each other."""

    def __init__(self, trials: int) -> None:
        self._barrier = asyncio.Barrier(trials)

    async def wait(self) -> None:
        await self._barrier.wait()


class TimedTrial:
    """A process that trains a few steps, beside others of its kind."""

    def train(
        self, method: str, settings: dict[str, Any], threads: int, line: Any
    ) -> tuple[float, tuple[float, float]]:
        """Train a few steps. Returns sentences a second, and the shares of memory that are used."""
        from cse_platform.forecast.measured import train_some  # imports torch

        loaded_method, config = prepare_process(method, settings, threads=threads)
        assert isinstance(config, TrainingConfig)  # the driver has looked
        corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
        with as_found():
            run = _Paced(line)
            train_some(
                loaded_method, config, run, corpus=corpus, steps=_STEPS, eval_steps=_STEPS // 2
            )
            return run.sentences_per_second, _measure_memory()


class _Paced:
    """A `Run` that starts with the others, and keeps the speed of the last steps."""

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
    """Measure the used shares of the machine's memory and of the GPU's.

    The first is this process's peak, of what it could have; the second is that of all processes.
    """
    own = int(peak_memory("cpu")["peak_memory_mib"]) << 20
    share = own / (own + psutil.virtual_memory().available)
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return share, 0.0
    free, total = torch.cuda.mem_get_info()
    return share, 1 - free / total
