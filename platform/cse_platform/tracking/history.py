"""The state of a sweep, rebuilt from its journal, on which alone the driver bases its decisions."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import Any, Literal

from pydantic import ValidationError

from cse_methods.data.dev_selection import DevSelection, dev_metric
from cse_platform.errors import JournalError
from cse_platform.tracking import events

TRAIN_MINUTES, EPOCH_MINUTES, EPOCHS = "train_minutes", "epoch_minutes", "epochs"
SPEED, GPU_MEMORY, HOST_MEMORY = "sentences_per_second", "gpu_memory_gib", "host_memory_gib"
COSTS = (TRAIN_MINUTES, EPOCH_MINUTES, SPEED, GPU_MEMORY, HOST_MEMORY)
"""The costs of a trial other than wall time. Minutes are those of optimiser steps only, without the
start of a worker, reading the corpus, and evaluations.
"""

_PREFIX = "perf/"
MEMORY = {GPU_MEMORY: "gpu_peak_memory_mib", HOST_MEMORY: "peak_memory_mib"}
"""The worker's names of these costs; it counts MiB since it began the trial."""
CUT_OFF = "it was cut off and waits to go on"
"""Why a trial that has not ended does not run."""


def stored_confirmed(spec: Mapping[str, Any]) -> int:
    """Return `SweepSpec.confirmed` of a stored spec; 0 if it is of another version."""
    from cse_platform.sweep.spec import SweepSpec  # imports methods

    try:
        return SweepSpec.model_validate(spec).confirmed
    except ValidationError:
        return 0


def stored_dev(spec: Mapping[str, Any]) -> DevSelection:
    """Return the dev sets of a stored spec; the defaults if they cannot be parsed."""
    try:
        return DevSelection.model_validate(spec.get("dev") or {})
    except ValidationError:
        return DevSelection()


def stored_at_most(spec: Mapping[str, Any]) -> int | None:
    """Return how many trials a stored spec allows at once; None if it does not limit them."""
    at_most: int | None = (spec.get("resources") or {}).get("at_most")
    return at_most


def costs_of_report(
    metrics: Mapping[str, float], provenance: Mapping[str, str], *, epoch_sentences: int | None
) -> dict[str, float]:
    """Convert the costs in a worker's report to metrics of its dev point.

    Args:
        metrics: the metrics of the report, with the speed since the previous report.
        provenance: the facts of the worker, with its peak memory so far.
        epoch_sentences: number of sentences in an epoch of the trial; None if unknown.

    Returns:
        `perf/gpu_memory_gib` and `perf/host_memory_gib`, the peak since the trial began in its
        process, and `perf/epoch_minutes`, the time of an epoch at this speed. Unknown ones are
        absent.
    """
    costs = {
        _PREFIX + name: int(provenance[key]) / 1024
        for name, key in MEMORY.items()
        if provenance.get(key, "").isdecimal()
    }
    speed = _read_positive(metrics, SPEED)
    if speed is not None and epoch_sentences:
        costs[_PREFIX + EPOCH_MINUTES] = epoch_sentences / speed / 60
    return costs


@dataclass
class TrialCosts:
    """Sums the costs of a trial over its dev points, in the order of their steps.

    Each step counts once, even if a resumed trial repeats some. Minutes are summed over all
    processes that it ran in; memory is the maximum over these.
    """

    step: int = 0
    sentences: int = 0
    """Number of sentences trained on up to this step."""
    seconds: float | None = 0.0
    """Time in optimiser steps; None once the speed of some steps is unknown."""
    epoch_sentences: int | None = None
    memory: dict[str, float] = field(default_factory=dict)

    def add(self, step: int, metrics: Mapping[str, float], *, batch_size: int | None) -> None:
        """Add the dev point after `step` optimiser steps."""
        for name in MEMORY:
            if (used := _read_positive(metrics, name)) is not None:
                self.memory[name] = max(used, self.memory.get(name, used))
        if step <= self.step:
            return
        sentences = (step - self.step) * (batch_size or 0)
        speed, epoch = _read_positive(metrics, SPEED), _read_positive(metrics, EPOCH_MINUTES)
        if self.seconds is not None:
            self.seconds = self.seconds + sentences / speed if speed and sentences else None
        self.step, self.sentences = step, self.sentences + sentences
        if speed and epoch:
            self.epoch_sentences = round(60 * epoch * speed)

    def totals(self) -> dict[str, float]:
        """Compute the known costs, and `epochs`, the number of passes over the corpus.

        After less than an epoch, `epoch_minutes` is extrapolated at the same speed.
        """
        costs = dict(self.memory)
        if self.seconds:
            costs[TRAIN_MINUTES] = self.seconds / 60
            costs[SPEED] = self.sentences / self.seconds
            if self.epoch_sentences:
                costs[EPOCHS] = self.sentences / self.epoch_sentences
                costs[EPOCH_MINUTES] = costs[TRAIN_MINUTES] / costs[EPOCHS]
        return costs


def _read_positive(metrics: Mapping[str, float], name: str) -> float | None:
    """Read a cost metric; None if it is unknown or not a finite number above 0."""
    value = metrics.get(_PREFIX + name, math.nan)
    return value if 0 < value < math.inf else None


class SearchEffort:
    """Sums the time that a search takes from a sweep's events; further seeds do not count."""

    def __init__(self) -> None:
        self.gpu_seconds = 0.0
        """GPU seconds of ended trials, in whole GPUs."""
        self._seconds = 0.0
        self._running: set[str] = set()
        self._last: datetime | None = None

    def apply(self, event: events.Event) -> None:
        """Apply one event; applying it again changes nothing."""
        if isinstance(event, events.SweepStarted) and not event.is_of_one_run:
            self._running.clear()  # nothing ran while the driver was away
        self._seconds = self.seconds(event.time)
        self._last = event.time
        if isinstance(event, events.TrialStarted) and event.role != "confirm":
            self._running.add(event.trial)
        if isinstance(event, events.TrialFinished) and event.trial in self._running:
            self._running.remove(event.trial)
            self.gpu_seconds += (event.wall_seconds or 0.0) * event.gpus

    def seconds(self, now: datetime) -> float:
        """Return the seconds during which at least one trial of the search ran, up to `now`."""
        if not self._running or self._last is None:
            return self._seconds
        return self._seconds + max((now - self._last).total_seconds(), 0.0)


METRIC_KINDS = ("dev", "test", "train", "perf")
"""The order of metrics for people, by what stands before `/`; others come last."""


def order_metrics(names: Iterable[str]) -> list[str]:
    """Order the names of metrics as people read them: dev, test, train, perf; each name once."""

    def rank(name: str) -> int:
        kind = name.partition("/")[0]
        return METRIC_KINDS.index(kind) if kind in METRIC_KINDS else len(METRIC_KINDS)

    return sorted(dict.fromkeys(names), key=rank)


@dataclass
class TrialHistory:
    """One trial of a sweep: its settings and its results."""

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
    search_notes: events.SearchNotes = field(default_factory=events.SearchNotes)
    environment: str | None = None
    """`SweepStarted.environment` of the sweep's start under which the trial was last started."""
    reused_from: str | None = None
    """The sweep that the trial was reused from; None if it ran here."""
    resumed_from: int | None = None
    """The step that the trial last resumed from; None if it never did."""
    state: Literal["RUNNING"] | events.TrialState = "RUNNING"
    curve: dict[int, float] = field(default_factory=dict)
    """The search's dev score by optimiser step."""
    kept: dict[int, float] = field(default_factory=dict)
    """By trained step, the value of the checkpoint that would be kept if the trial ended there.
    This curve never falls if the dev set that picks checkpoints is the one the search climbs. NaN
    while there is no checkpoint.
    """
    last_metrics: dict[str, float] = field(default_factory=dict)
    """All metrics of the last report."""
    tops: dict[str, events.TrialPoint] = field(default_factory=dict)
    """For each dev metric, the trained step with the highest value, the earliest on ties. Of other
    steps only the curve is kept, to limit the driver's memory in a long search.
    """
    costs: TrialCosts = field(default_factory=TrialCosts)
    """The costs up to the last report, other than wall time."""
    checkpoint: tuple[int, str] | None = None
    """Step and location of the last complete checkpoint."""
    best_step: int | None = None
    best_value: float | None = None
    model: str | None = None
    """Folder of the best checkpoint, if it was kept."""
    model_deleted: bool = False
    """Whether the model was deleted because other trials are better."""
    error: str | None = None
    cause: events.FailureCause | None = None
    """The cause of a failure, if known."""
    why: str | None = None
    """The reason why the trial was stopped early, or does not run now, if either is so."""
    finished: datetime | None = None
    pruner_notes: dict[str, Any] = field(default_factory=dict)
    """Attributes that the pruner has set on the Optuna trial."""
    busy_seconds: float = 0.0
    """Seconds that the trial ran, without interruptions."""
    last_heard: datetime | None = None
    retry_requested: bool = False
    """Whether a retry of the trial was requested that has not started yet."""
    evaluated: dict[str, set[str]] = field(default_factory=dict)
    """The tasks that the trial was scored on, by the evaluation's settings: single tasks,
    `ranking`, `geometry`.
    """

    @property
    def last_step(self) -> int | None:
        """The step of the last dev point; None before the first."""
        return max(self.curve, default=None)

    @property
    def last_value(self) -> float | None:
        """The dev score of the last dev point."""
        return self.curve.get(self.last_step or 0)

    @property
    def batch_size(self) -> int | None:
        """Sentences per step; None if the method has no such setting."""
        size = self.values.get("batch_size")
        return size if isinstance(size, int) and size > 0 else None

    @property
    def searched_values(self) -> dict[str, Any]:
        """The values of the active searched hyperparameters."""
        return {name: self.values[name] for name in self.searched if name in self.values}

    def busy_until(self, now: datetime) -> float:
        """Return the seconds that a running trial has run up to `now`."""
        return self.busy_seconds + (now - (self.last_heard or now)).total_seconds()

    def best(self, *, picked_by: str) -> events.TrialPoint | None:
        """Return the report of the best checkpoint among trained steps; None if there is none.

        `picked_by` names the dev score that picks it, e.g. `stsb`, or `stsb+sickr` for a mean.
        Ties go to the earliest step. None also if the best checkpoint's value for the search is
        NaN.
        """
        top = self.tops.get(dev_metric(picked_by))
        return None if top is None or math.isnan(top.value) else top

    def value_so_far(self, *, picked_by: str) -> float | None:
        """Return the dev score of the best checkpoint; of a running trial, of the best so far."""
        if self.state != "RUNNING":
            return self.best_value
        best = self.best(picked_by=picked_by)
        return None if best is None else best.value

    def with_point(self, point: events.TrialPoint, *, picked_by: str) -> "TrialHistory":
        """Return the trial as `add_point` would change it."""
        trial = replace(
            self,
            curve=dict(self.curve),
            kept=dict(self.kept),
            tops=dict(self.tops),
            costs=replace(self.costs, memory=dict(self.costs.memory)),
        )
        trial.add_point(point, picked_by=picked_by)
        return trial

    def add_point(self, point: events.TrialPoint, *, picked_by: str) -> None:
        """Add one report; `picked_by` names the dev score that picks the best one."""
        self.curve[point.step], self.last_metrics = point.value, point.metrics
        self.costs.add(point.step, point.metrics, batch_size=self.batch_size)
        for name, value in point.metrics.items():
            if name.startswith("dev/") and point.step > 0 and not math.isnan(value):
                top = self.tops.get(name)
                if top is None or (value, -point.step) > (top.metrics[name], -top.step):
                    self.tops[name] = point
        if point.step > 0:
            best = self.best(picked_by=picked_by)
            self.kept[point.step] = math.nan if best is None else best.value


class History:
    """The state of a sweep; its trials are by key, in the order in which they were started."""

    def __init__(self, past: Iterable[events.Event] = ()) -> None:
        self.spec: dict[str, Any] | None = None
        self.dev = stored_dev({})
        """The dev sets of the spec."""
        self.best: dict[str, str] = {}
        self.leaders: dict[str, dict[str, Any]] | None = None
        """The configurations that `start_from: [leaderboard]` stands for; None if never asked."""
        self.learned: tuple[events.LearnedTrial, ...] = ()
        """The trials of other sweeps that the sampler learns from."""
        self.content: dict[str, Any] = {}
        """Revision and hashes that the trials' numbers depend on, at the last start."""
        self.environment: str | None = None
        """Hash of possible causes of failures, at the last start."""
        self.launches: dict[str, events.Launch] = {}
        """The first launch of the sweep's file with each of its settings, by their hash."""
        self.complete = False
        self.at_most: int | None = None
        """How many trials may run at once, by the spec or a later request; None for no limit."""
        self.enqueued: dict[str, dict[str, Any]] = {}
        """Configurations that people enqueued, by request."""
        self.spent: str | None = None
        """The budget that ended the search, in words; None if that was the number of trials."""
        self.search_limit: int | None = None
        """Limit on the number of trials of a search that its budget has ended."""
        self.effort = SearchEffort()
        self.messages: list[events.DriverMessage] = []
        """Messages of the driver since its last start."""
        self.requests: set[str] = set()
        """Ids of all requests that the driver has received."""
        self.trials: dict[str, TrialHistory] = {}
        self.attempts: dict[int, TrialHistory] = {}
        """Trials of the search by their Optuna number, including retried ones."""
        for event in past:
            self.apply(event)

    def apply(self, event: events.Event) -> None:
        """Apply one event; applying it again changes nothing."""
        self.effort.apply(event)
        match event:
            case events.SweepStarted():
                if self.spec is not None and self.spec.get("search") != event.spec.get("search"):
                    self.spent = self.search_limit = None
                self.spec, self.best, self.complete = event.spec, event.best, False
                self.dev = stored_dev(event.spec)
                self.at_most = stored_at_most(event.spec)
                self.content, self.environment = event.content, event.environment
                self.learned = event.learned
                if event.launch is not None:
                    self.launches.setdefault(event.launch.settings, event.launch)
                self.leaders = event.leaders if event.leaders is not None else self.leaders
                self.messages = []
                for trial in () if event.is_of_one_run else self.unfinished():
                    trial.last_heard = None  # nothing ran while the driver was away
                    trial.why = CUT_OFF
            case events.SweepRequested() if event.request not in self.requests:
                self.requests.add(event.request)
                if event.action == "enqueue":
                    self.complete = False
                    self.enqueued[event.request] = event.values
                    if self.search_limit is not None:
                        self.search_limit += 1
                elif event.action == "limit":
                    self.at_most = event.at_most
                elif event.action == "retry":
                    for trial in self.trials.values():
                        named = trial.number in event.numbers
                        trial.retry_requested |= (named and trial.state == "PRUNED") or (
                            trial.state == "FAIL" and (named or not event.numbers)
                        )
            case events.DriverMessage():
                self.messages.append(event)
            case events.SearchEnded():
                self.spent, self.search_limit = event.budget, self.searched
            case events.SweepFinished():
                self.complete = event.state == "COMPLETE"
            case events.TrialStarted():
                self._start_trial(event)
            case events.TrialReused():
                self._reuse_trial(event)
            case events.TrialPoint():
                trial = self._find_trial(event)
                trial.busy_seconds, trial.last_heard = trial.busy_until(event.time), event.time
                trial.pruner_notes |= event.pruner_notes
                if event.step not in trial.curve:
                    trial.add_point(event, picked_by=self.dev.checkpoint_name)
                    if event.checkpoint is not None:
                        trial.checkpoint = (event.step, event.checkpoint)
            case events.TrialCheckpoint():
                self._find_trial(event).checkpoint = (event.step, event.checkpoint)
            case events.TrialFinished():
                trial = self._find_trial(event)
                trial.busy_seconds, trial.last_heard = trial.busy_until(event.time), event.time
                trial.state, trial.error, trial.finished = event.state, event.error, event.time
                trial.why, trial.cause = event.why, event.cause
                trial.best_step, trial.best_value = event.best_step, event.best_value
                trial.model, trial.model_deleted = event.model, False
            case events.ModelDeleted():
                trial = self._find_trial(event)
                trial.model, trial.model_deleted = None, True
            case events.TrialEvaluated():
                done = self._find_trial(event).evaluated.setdefault(event.settings, set())
                done |= set(event.tasks)

    def _find_trial(self, event: events.TrialEvent) -> TrialHistory:
        if event.trial not in self.trials:
            raise JournalError(
                f"the journal of sweep {event.sweep!r} speaks of trial {event.trial} before it "
                "starts; put the newest copy of the file back, or run the sweep under another "
                "name: --set sweep=NEWNAME"
            )
        return self.trials[event.trial]

    def unfinished(self) -> list[TrialHistory]:
        """List trials that were started and have not ended, oldest first."""
        return [trial for trial in self.trials.values() if trial.state == "RUNNING"]

    @property
    def searched(self) -> int:
        """The number of trials that the search has begun."""
        return sum(trial.role != "confirm" for trial in self.trials.values())

    def list_waiting(self) -> list[str]:
        """List the requests of enqueued configurations that no trial has begun, oldest first."""
        if not self.enqueued:
            return []
        begun = {attempt.search_notes.request for attempt in self.attempts.values()}
        return [request for request in self.enqueued if request not in begun]

    def configurations(self) -> dict[str, list[TrialHistory]]:
        """Group the complete trials by configuration."""
        groups: dict[str, list[TrialHistory]] = {}
        for trial in self.trials.values():
            if trial.state == "COMPLETE":
                groups.setdefault(trial.configuration, []).append(trial)
        return groups

    @property
    def confirms_all(self) -> bool:
        """Whether every configuration of the search gets the same further seeds."""
        searched = {
            trial.configuration for trial in self.trials.values() if trial.role != "confirm"
        }
        return self.spec is not None and len(searched) <= stored_confirmed(self.spec)

    def _start_trial(self, event: events.TrialStarted) -> None:
        known = self.trials.get(event.trial)
        if known is None or event.resumed_from is None:
            known = self._add_trial(event)
        known.environment = self.environment
        known.last_heard, known.resumed_from = event.time, event.resumed_from
        known.why = None
        if known.checkpoint is not None and known.checkpoint[0] != event.resumed_from:
            known.checkpoint = None  # it was missing, as the trial did not resume from it

    def _add_trial(self, event: events.TrialBegun, **known: Any) -> TrialHistory:
        """Add a trial; a retry replaces the failed trial with another key that had its number."""
        if event.number < len(self.trials):  # numbers count up, except those of retries
            for key, other in list(self.trials.items()):
                if other.number == event.number and key != event.trial:
                    del self.trials[key]
        shared = events.copy_shared_fields(event)
        trial = TrialHistory(key=event.trial, started=event.time, **shared, **known)
        self.trials[event.trial] = trial
        if trial.search_number is not None:
            self.attempts[trial.search_number] = trial
        return trial

    def _reuse_trial(self, event: events.TrialReused) -> None:
        # As far as it is known: the event has the curve of the dev set that the search climbs, but
        # not of another one that picks checkpoints.
        steps = sorted(step for step in event.curve if step > 0)
        kept = dict(zip(steps, accumulate((event.curve[step] for step in steps), max), strict=True))
        if max(kept.values(), default=event.best_value) != event.best_value:
            kept = {step: event.best_value for step in steps if step >= event.best_step}
        self._add_trial(
            event,
            finished=event.time,
            state="COMPLETE",
            curve=event.curve,
            kept=kept,
            best_step=event.best_step,
            best_value=event.best_value,
            model=event.model,
            reused_from=event.reused_from,
        )
