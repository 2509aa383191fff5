"""Events into MLflow runs. Imports MLflow: only `mlflow_mirror` imports this, at first use."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from mlflow.entities import Metric, Param, RunTag, ViewType

from cse_methods.data.dev_selection import dev_metric
from cse_platform.tracking.events import (
    Event,
    SweepFinished,
    SweepStarted,
    TestAccessed,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialStarted,
)
from cse_platform.tracking.mlflow.evaluation import add_evaluation
from cse_platform.tracking.mlflow.saved_view import TAG, saved_view
from cse_platform.tracking.mlflow.store import Experiment
from cse_platform.tracking.mlflow.values import (
    IDENTITY,
    NOTE,
    clean_name,
    end_metrics,
    end_tags,
    first_note,
    inherited_tags,
    milliseconds,
    run_identity,
    sweep_tags,
    trial_params,
    trial_tags,
    trial_title,
)

_POSITION = "cse.position"
_OFFERED = "cse.view"
_PARENT = "mlflow.parentRunId"
_STATUS = {"COMPLETE": "FINISHED", "PRUNED": "KILLED", "FAIL": "FAILED", "INTERRUPTED": "KILLED"}

_OfTrial = TrialPoint | TrialFinished | TestAccessed | TrialEvaluated


class RunWriter:
    """The runs of one experiment, as one process knows them.

    A run that a user deleted stays deleted, and its events are passed over. A trial that starts
    anew, without a checkpoint, gets a new run, and the old one is deleted (MLflow can restore
    it): MLflow cannot take points back one by one.

    Args:
        experiment: open.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._client = experiment.client
        self._experiment = experiment.id
        self._sweeps: dict[str, Any] = {}
        self._trials: dict[tuple[str, str], str | None] = {}
        self._points: defaultdict[str, list[Metric]] = defaultdict(list)

    def position(self, journal: str) -> int:
        """The offset up to which that journal has been applied."""
        tags = self._client.get_experiment(self._experiment).tags
        return int(tags.get(f"{_POSITION}.{journal}", 0))

    def move(self, journal: str, offset: int) -> None:
        """Remember that the journal has been applied up to that offset."""
        self._client.set_experiment_tag(self._experiment, f"{_POSITION}.{journal}", str(offset))

    def take(self, event: Event) -> None:
        """Mirror one event; dev points wait for `flush` or an event of another kind."""
        if isinstance(event, TrialPoint):
            self._add_point(event)
            return
        self.flush()
        match event:
            case SweepStarted():
                self._start_sweep(event)
            case TrialStarted():
                self._start_trial(event)
            case TrialFinished():
                self._finish_trial(event)
            case TrialReused():
                self._reuse_trial(event)
            case TestAccessed() | TrialEvaluated():
                if run_id := self._trial(event):
                    add_evaluation(self._client, run_id, event)
            case SweepFinished():
                self._finish_sweep(event)

    def flush(self) -> None:
        """Log the dev points that wait; the client cuts them into batches."""
        for run_id, metrics in self._points.items():
            self._client.log_batch(run_id, metrics=metrics)
        self._points.clear()

    def _offer_view(self) -> None:
        """Save the view of all trials, once: users may change it, or delete it."""
        if _OFFERED not in self._client.get_experiment(self._experiment).tags:
            self._client.set_experiment_tag(self._experiment, TAG, saved_view())
            self._client.set_experiment_tag(self._experiment, _OFFERED, "true")

    def _start_sweep(self, event: SweepStarted) -> None:
        self._offer_view()
        name, tags = run_identity(event.sweep), sweep_tags(event)
        known = self._find(name)
        if not known:
            noted = tags | {NOTE: first_note(event)}
            self._create(name, event.sweep, milliseconds(event.time), noted)
        elif _active(known[0]):
            self._reopen(known[0].info.run_id, tags)
        self._sweeps.pop(event.sweep, None)

    def _finish_sweep(self, event: SweepFinished) -> None:
        sweep = self._sweep(event.sweep)
        if sweep is None:
            return
        end, run_id = milliseconds(event.time), sweep.info.run_id
        # An interrupted sweep may never be taken up; a trial that is runs again then.
        for run in self._search(f"attributes.status = 'RUNNING' AND tags.`{_PARENT}` = '{run_id}'"):
            self._client.set_terminated(run.info.run_id, "KILLED", end_time=end)
        self._client.set_terminated(run_id, _STATUS[event.state], end_time=end)

    def _start_trial(self, event: TrialStarted) -> None:
        started, known = milliseconds(event.time), self._known_at(event)
        if any(_completed_before(run, started) for run in known):
            self._trials[event.sweep, event.trial] = None
            return
        if event.resumed_from is None:
            for run in known:
                if _active(run) and _since(run) < started:
                    self._client.delete_run(run.info.run_id)
            known = [run for run in known if _since(run) == started]
        self._open_trial(event, known)

    def _reuse_trial(self, event: TrialReused) -> None:
        """A finished child with the settings, the search's dev curve and its best value."""
        run_id = self._open_trial(event, self._find(run_identity(event.sweep, event.trial)))
        sweep = self._sweep(event.sweep)
        if run_id is None or sweep is None:
            return
        time, name = milliseconds(event.time), dev_metric(sweep.data.tags["dev_search"])
        curve = [Metric(name, value, time, step) for step, value in event.curve.items()]
        best = Metric(name.replace("dev/", "best/", 1), event.best_value, time, event.best_step)
        step = Metric("best/step", event.best_step, time, event.best_step)
        self._client.log_batch(run_id, metrics=[*curve, best, step])
        self._client.set_terminated(run_id, "FINISHED", end_time=time)

    def _add_point(self, event: TrialPoint) -> None:
        run_id, time = self._trial(event), milliseconds(event.time)
        if run_id is not None:
            self._points[run_id] += [
                Metric(clean_name(name), value, time, event.step)
                for name, value in event.metrics.items()
            ]

    def _finish_trial(self, event: TrialFinished) -> None:
        run_id, end = self._trial(event), milliseconds(event.time)
        if run_id is None:
            return
        metrics = [
            Metric(clean_name(name), value, end, event.best_step or 0)
            for name, value in end_metrics(event).items()
        ]
        self._client.log_batch(run_id, metrics=metrics, tags=_run_tags(end_tags(event)))
        self._client.set_terminated(run_id, _STATUS[event.state], end_time=end)

    def _open_trial(self, event: TrialStarted | TrialReused, known: list[Any]) -> str | None:
        """The trial's run, created where none is known; None if a user deleted it or its sweep."""
        sweep, tags = self._sweep(event.sweep), trial_tags(event)
        run_id: str | None = None
        if known and _active(known[0]):
            run_id = str(known[0].info.run_id)
            self._reopen(run_id, tags)
        elif not known and sweep is not None:
            tags = inherited_tags(sweep.data.tags) | tags | {_PARENT: sweep.info.run_id}
            name, started = run_identity(event.sweep, event.trial), milliseconds(event.time)
            run_id = self._create(name, trial_title(event, tags["method"]), started, tags)
        if run_id is not None:
            params = [Param(name, value) for name, value in trial_params(event).items()]
            self._client.log_batch(run_id, params=params)
        self._trials[event.sweep, event.trial] = run_id
        return run_id

    def _trial(self, event: _OfTrial) -> str | None:
        """The id of the run of that attempt at the trial; None if it was deleted."""
        key = event.sweep, event.trial
        if key not in self._trials:
            known = self._known_at(event)
            self._trials[key] = known[0].info.run_id if known and _active(known[0]) else None
        return self._trials[key]

    def _known_at(self, event: TrialStarted | _OfTrial) -> list[Any]:
        """The trial's runs that began before the event, newest first.

        While old entries are applied again, runs of later attempts exist already.
        """
        time = milliseconds(event.time)
        return [r for r in self._find(run_identity(event.sweep, event.trial)) if _since(r) <= time]

    def _sweep(self, name: str) -> Any:
        """The sweep's run; None if a user deleted it."""
        if name not in self._sweeps:
            known = [run for run in self._find(run_identity(name)) if _active(run)]
            self._sweeps[name] = known[0] if known else None
        return self._sweeps[name]

    def _find(self, name: str) -> list[Any]:
        """All runs of one sweep or trial by its identity, deleted ones too, newest first."""
        return self._search(f"tags.`{IDENTITY}` = '{name}'", view=ViewType.ALL)

    def _search(self, condition: str, *, view: int = ViewType.ACTIVE_ONLY) -> list[Any]:
        newest_first = ["attributes.start_time DESC"]
        return list(
            self._client.search_runs([self._experiment], condition, view, order_by=newest_first)
        )

    def _create(self, name: str, title: str, started: int, tags: Mapping[str, str]) -> str:
        tags = {**tags, IDENTITY: name}
        run = self._client.create_run(self._experiment, started, tags, run_name=title)
        return str(run.info.run_id)

    def _reopen(self, run_id: str, tags: Mapping[str, str]) -> None:
        self._client.log_batch(run_id, tags=_run_tags(tags))
        self._client.update_run(run_id, status="RUNNING")


def _active(run: Any) -> bool:
    return bool(run.info.lifecycle_stage == "active")


def _since(run: Any) -> int:
    return int(run.info.start_time)


def _completed_before(run: Any, time: int) -> bool:
    finished = _active(run) and run.info.status == "FINISHED" and _since(run) < time
    return bool(finished and run.info.end_time is not None and run.info.end_time <= time)


def _run_tags(tags: Mapping[str, str]) -> list[RunTag]:
    return [RunTag(name, value) for name, value in tags.items()]
