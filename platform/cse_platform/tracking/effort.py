"""What a trial costs, and what the search of a sweep has taken so far."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cse_platform.tracking import events

TRAIN_MINUTES, EPOCH_MINUTES, EPOCHS = "train_minutes", "epoch_minutes", "epochs"
SPEED, GPU_MEMORY, HOST_MEMORY = "sentences_per_second", "gpu_memory_gib", "host_memory_gib"
COSTS = (TRAIN_MINUTES, EPOCH_MINUTES, SPEED, GPU_MEMORY, HOST_MEMORY)
"""What a trial costs, beside its time by the clock. The minutes are those of optimiser steps alone:
the start of a worker, reading the corpus and evaluations are left out."""

_PREFIX = "perf/"
MEMORY = {GPU_MEMORY: "gpu_peak_memory_mib", HOST_MEMORY: "peak_memory_mib"}
"""What a worker calls these costs, which counts MiB since it began with the trial."""


def costs_of_report(
    metrics: Mapping[str, float], provenance: Mapping[str, str], *, epoch_sentences: int | None
) -> dict[str, float]:
    """What a worker's report says of costs, as metrics of its dev point.

    Args:
        metrics: those that the method reports; the speed since its report before is among them.
        provenance: the peak memory of the worker until now.
        epoch_sentences: how many sentences an epoch of the trial has; None where that is unknown.

    Returns:
        `perf/gpu_memory_gib` and `perf/host_memory_gib`, the most that was used since the trial
        began in its process, and `perf/epoch_minutes`, how long an epoch takes at this speed.
        What is unknown is left out.
    """
    found = {
        _PREFIX + name: int(provenance[key]) / 1024
        for name, key in MEMORY.items()
        if provenance.get(key, "").isdecimal()
    }
    speed = _positive(metrics, SPEED)
    if speed is not None and epoch_sentences:
        found[_PREFIX + EPOCH_MINUTES] = epoch_sentences / speed / 60
    return found


@dataclass
class TrialCosts:
    """What a trial costs, put together from its dev points in the order of their steps.

    Each step counts once, also where a trial that goes on repeats some: its minutes are the sum
    over all processes that it ran in, and its memory is the most of any.
    """

    step: int = 0
    sentences: int = 0
    """That were trained on, until this step."""
    seconds: float | None = 0.0
    """In optimiser steps; None once the speed of some is unknown."""
    epoch_sentences: int | None = None
    memory: dict[str, float] = field(default_factory=dict)

    def add(self, step: int, metrics: Mapping[str, float], *, batch_size: int | None) -> None:
        """Take the dev point after `step` optimiser steps."""
        for name in MEMORY:
            if (used := _positive(metrics, name)) is not None:
                self.memory[name] = max(used, self.memory.get(name, used))
        if step <= self.step:
            return
        sentences = (step - self.step) * (batch_size or 0)
        speed, epoch = _positive(metrics, SPEED), _positive(metrics, EPOCH_MINUTES)
        known = self.seconds is not None and speed is not None and sentences > 0
        self.seconds = self.seconds + sentences / speed if known else None
        self.step, self.sentences = step, self.sentences + sentences
        if speed and epoch:
            self.epoch_sentences = round(60 * epoch * speed)

    def totals(self) -> dict[str, float]:
        """The costs that are known, and `epochs`, how often the trial went through its corpus.

        Of a part of an epoch, `epoch_minutes` says how long a whole one takes at the same speed.
        """
        found = dict(self.memory)
        if self.seconds:
            found[TRAIN_MINUTES] = self.seconds / 60
            found[SPEED] = self.sentences / self.seconds
            if self.epoch_sentences:
                found[EPOCHS] = self.sentences / self.epoch_sentences
                found[EPOCH_MINUTES] = found[TRAIN_MINUTES] / found[EPOCHS]
        return found


def _positive(metrics: Mapping[str, float], name: str) -> float | None:
    """A metric of costs; None where it is unknown or no number above 0."""
    value = metrics.get(_PREFIX + name, math.nan)
    return value if 0 < value < math.inf else None


class SearchEffort:
    """Put together from a sweep's events, in their order; further seeds do not count."""

    def __init__(self) -> None:
        self.gpu_seconds = 0.0
        """Of whole GPUs, by the trials that have ended."""
        self._seconds = 0.0
        self._running: set[str] = set()
        self._last: datetime | None = None

    def apply(self, event: events.Event) -> None:
        """Take one event; one that is repeated changes nothing."""
        if isinstance(event, events.SweepStarted):  # nothing ran while the driver was away
            self._running.clear()
        self._seconds = self.seconds(event.time)
        self._last = event.time
        if isinstance(event, events.TrialStarted) and event.role != "confirm":
            self._running.add(event.trial)
        if isinstance(event, events.TrialFinished) and event.trial in self._running:
            self._running.remove(event.trial)
            self.gpu_seconds += (event.wall_seconds or 0.0) * event.gpus

    def seconds(self, now: datetime) -> float:
        """How long a trial of the search ran, one at least, until now."""
        if not self._running or self._last is None:
            return self._seconds
        return self._seconds + max((now - self._last).total_seconds(), 0.0)
