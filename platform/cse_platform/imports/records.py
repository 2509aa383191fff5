"""A trial that ran elsewhere, and the events that bring it onto the leaderboard."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from cse_methods.data.dev_selection import DevTask, dev_metric
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.sweep.identity import canonical_hash
from cse_platform.tracking.events import (
    IMPORTED,
    Event,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialScore,
    TrialStarted,
    TrialState,
)

SCORED_BY = dict.fromkeys((*STS_TASKS, AVG_STS), "spearman") | dict.fromkeys(
    (*TRANSFER_TASKS, AVG_TRANSFER, *LONG_TASKS), "accuracy"
)
"""The main metric of each task."""

AVERAGES = {AVG_STS: STS_TASKS, AVG_TRANSFER: TRANSFER_TASKS}

RECORD = "imported_record"
"""In a trial's provenance: the run or the file that it comes from."""

TEST_IDENTITY = canonical_hash([IMPORTED, "test"])


@dataclass(frozen=True)
class ImportedPoint:
    step: int
    time: datetime
    metrics: dict[str, float]
    """By our names; correlations and accuracies are fractions."""


@dataclass(frozen=True)
class ImportedTrial:
    """One run of another training script, in our terms."""

    name: str
    """As messages call it."""
    lab: str
    """The name that it comes under: of unlike names, nobody knows whether code and data are the
    same, so they share no row."""
    method: str
    backbone: str
    values: dict[str, Any]
    searched: tuple[str, ...]
    seed: int
    dev: DevTask
    state: TrialState
    started: datetime
    finished: datetime
    provenance: dict[str, str]
    """With `imported_record`."""
    points: tuple[ImportedPoint, ...] = ()
    final: dict[str, float] = field(default_factory=dict)
    """Dev metrics that were logged without a step."""
    scores: dict[str, float] = field(default_factory=dict)
    """On test, by task; fractions."""
    error: str | None = None
    wall_seconds: float | None = None

    @cached_property
    def configuration(self) -> str:
        """Hash of all that is known of it but the seed; no trial of our own has the same."""
        return canonical_hash([*self._known, self.lab])

    @cached_property
    def key(self) -> str:
        """Runs that are attempts at the same trial share it."""
        return canonical_hash([IMPORTED, self.configuration, self.seed])

    @property
    def former_key(self) -> str:
        """The key by which versions that did not tell labs apart stored it."""
        return canonical_hash([IMPORTED, canonical_hash(self._known), self.seed])

    @property
    def _known(self) -> list[Any]:
        return [IMPORTED, self.method, self.backbone, self.values, self.dev]

    @property
    def record(self) -> str:
        return self.provenance[RECORD]

    @property
    def best(self) -> tuple[int | None, dict[str, float]]:
        """Step and metrics of the best dev score among trained steps, the earliest of equal ones.

        Without any, the step is None and the metrics are those that were logged without one.
        """
        name = dev_metric(self.dev)
        trained = [p for p in self.points if p.step > 0 and math.isfinite(p.metrics[name])]
        if not trained:
            return None, self.final
        best = max(trained, key=lambda point: (point.metrics[name], -point.step))
        return best.step, best.metrics

    @property
    def identity(self) -> dict[str, str]:
        """What the leaderboard says of its dev set: a lab's imports of one dev task can be
        compared, and none of them with another lab's or with a trial of our own."""
        return {
            "checkpoint": self.dev,
            "search": self.dev,
            "identity": canonical_hash([IMPORTED, "dev", self.dev, self.lab]),
            "source": IMPORTED,
            "corpus": IMPORTED,
        }

    def events(self, sweep: str, number: int) -> Iterator[Event]:
        of = {"sweep": sweep, "trial": self.key}
        yield TrialStarted(
            **of,
            time=self.started,
            number=number,
            role="search",
            search_number=None,
            seed=self.seed,
            method=self.method,
            revision=0,
            backbone=self.backbone,
            configuration=self.configuration,
            values=self.values,
            searched=self.searched,
            dev=self.identity,
        )
        name = dev_metric(self.dev)
        for point in self.points:
            value, metrics = point.metrics[name], point.metrics
            yield TrialPoint(**of, time=point.time, step=point.step, value=value, metrics=metrics)
        step, best = self.best
        yield TrialFinished(
            **of,
            time=self.finished,
            state=self.state,
            best_step=step,
            best_value=best.get(name),
            best_metrics=best,
            error=self.error,
            wall_seconds=self.wall_seconds,
            provenance=self.provenance,
        )
        if self.scores:
            yield self._evaluated(sweep)

    def _evaluated(self, sweep: str) -> TrialEvaluated:
        means = {
            average: sum(self.scores[task] for task in tasks) / len(tasks)
            for average, tasks in AVERAGES.items()
            if self.scores.keys() >= set(tasks)
        }
        scores = tuple(
            TrialScore(
                task=task, split="test", metric=SCORED_BY[task], value=value, identity=TEST_IDENTITY
            )
            for task, value in (means | self.scores).items()
        )
        return TrialEvaluated(
            time=self.finished,
            sweep=sweep,
            trial=self.key,
            tasks=tuple(sorted(self.scores)),
            settings=IMPORTED,
            source=IMPORTED,
            scores=scores,
            similarities=(),
            identities={TEST_IDENTITY: {"source": IMPORTED}},
            seconds={},
        )
