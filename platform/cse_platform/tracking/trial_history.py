"""What a journal says of one trial, put together."""

import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from cse_methods.data.dev_selection import dev_metric
from cse_platform.tracking import events
from cse_platform.tracking.effort import TrialCosts


@dataclass
class TrialHistory:
    """One trial of a sweep: what was asked for, and what came back."""

    key: str
    number: int
    role: events.Role
    search_number: int | None
    seed: int
    configuration: str
    code: str | None
    values: dict[str, Any]
    searched: tuple[str, ...]
    started: datetime
    environment: str | None = None
    """That of the sweep's start under which it was last started."""
    reused_from: str | None = None
    """The sweep whose values it has; None for one that ran here."""
    resumed_from: int | None = None
    """The step that it last went on from; None for one that was started once."""
    state: Literal["RUNNING"] | events.TrialState = "RUNNING"
    curve: dict[int, float] = field(default_factory=dict)
    """The search's dev score by optimiser step."""
    kept: dict[int, float] = field(default_factory=dict)
    """By trained step, the value of the checkpoint that would be kept if the trial ended there: no
    curve falls here, where one dev set picks and is climbed. NaN while there is none."""
    last_metrics: dict[str, float] = field(default_factory=dict)
    """All metrics of the last report."""
    tops: dict[str, events.TrialPoint] = field(default_factory=dict)
    """The trained step with the highest value of each dev metric, the earliest of equal ones. Of
    all other steps only the curve is kept: a long search would fill the driver's memory."""
    costs: TrialCosts = field(default_factory=TrialCosts)
    """What it took until its last report, beside time by the clock."""
    checkpoint: tuple[int, str] | None = None
    """Step and place of the last whole checkpoint."""
    best_step: int | None = None
    best_value: float | None = None
    best_metrics: dict[str, float] = field(default_factory=dict)
    """All metrics of the best step."""
    wall_seconds: float | None = None
    """What it took, once it has ended."""
    gpus: float = 0.0
    """Its share of a GPU, once it has ended."""
    model: str | None = None
    """Folder of the best checkpoint, where it was kept."""
    model_deleted: bool = False
    """Whether it was deleted since, because other trials were better."""
    error: str | None = None
    cause: events.FailureCause | None = None
    """What it has failed of, where that is known."""
    why: str | None = None
    """Why it was stopped early, where it was."""
    finished: datetime | None = None
    busy_seconds: float = 0.0
    """Time it ran, interruptions left out."""
    last_heard: datetime | None = None
    asked_again: bool = False
    """Whether a person wants it tried again, which it was not since."""
    evaluated: dict[str, set[str]] = field(default_factory=dict)
    """What it was scored on, by the settings that were asked with: single tasks, `ranking`,
    `geometry`."""

    @property
    def step(self) -> int:
        return max(self.curve, default=0)

    @property
    def batch_size(self) -> int | None:
        """Sentences a step; None for a method that has no such setting."""
        size = self.values.get("batch_size")
        return size if isinstance(size, int) and size > 0 else None

    @property
    def searched_values(self) -> dict[str, Any]:
        """The values of the dimensions that were active."""
        return {name: self.values[name] for name in self.searched if name in self.values}

    def ran_until(self, time: datetime) -> None:
        """Add the time since the last event to the time that the trial ran."""
        if self.last_heard is not None:
            self.busy_seconds += (time - self.last_heard).total_seconds()
        self.last_heard = time

    def busy_until(self, now: datetime) -> float:
        """How long it has run, in seconds, where it runs now."""
        return self.busy_seconds + (now - (self.last_heard or now)).total_seconds()

    def best(self, *, checkpoint: str) -> events.TrialPoint | None:
        """The best checkpoint among trained steps, as it was reported; None if there is none.

        `checkpoint` is the dev set that picks it. It is the earliest of equal ones, and never one
        whose score is not a number.
        """
        top = self.tops.get(dev_metric(checkpoint))
        return None if top is None or math.isnan(top.value) else top

    def add_point(self, point: events.TrialPoint, *, checkpoint: str) -> None:
        """Take over one report; `checkpoint` is the dev set that picks the best one."""
        self.curve[point.step], self.last_metrics = point.value, point.metrics
        self.costs.add(point.step, point.metrics, batch_size=self.batch_size)
        for name, value in point.metrics.items():
            if name.startswith("dev/") and point.step > 0 and not math.isnan(value):
                top = self.tops.get(name)
                if top is None or (value, -point.step) > (top.metrics[name], -top.step):
                    self.tops[name] = point
        if point.step > 0:
            best = self.best(checkpoint=checkpoint)
            self.kept[point.step] = math.nan if best is None else best.value
