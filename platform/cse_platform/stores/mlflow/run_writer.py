"""Writes events into MLflow runs, with the progress of searches, and saves a view of all trials.

It imports MLflow, so only `mirror` imports this module, at first use.
"""

import base64
import hashlib
import json
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean
from typing import Any

from mlflow.entities import Metric, Param, RunTag, ViewType

from cse_platform.counting_seeds import LEAST_FURTHER, RIVALS
from cse_platform.errors import OtherSweepError, StoreError
from cse_platform.numbers import HASH_DIGITS
from cse_platform.secrets import mask_url
from cse_platform.stores.mlflow import metrics, tags
from cse_platform.stores.mlflow.metrics import (
    SPACE,
    Ended,
    best_metric,
    best_so_far_metrics,
    estimate_metrics,
    withdrawn_metrics,
)
from cse_platform.stores.mlflow.tags import VIEW, VIEW_OFFERED, clean_name, milliseconds
from cse_platform.tracking import events
from cse_platform.tracking.events import AnnotationWritten, SweepStarted
from cse_platform.tracking.history import stored_dev


def write_annotation(client: Any, experiment: str, event: AnnotationWritten) -> None:
    """Write an annotation to every run that it is about; deleted runs are not changed."""
    condition = {
        "sweep": f"tags.`{tags.IDENTITY}` = '{tags.run_identity(event.name)}'",
        "trial": f"tags.{tags.TRIAL} = '{event.name}'",
        "configuration": f"tags.configuration = '{event.name}'",
    }[event.about]
    written, taken = tags.annotation_tags(event)
    added = [RunTag(name, value) for name, value in written.items()]
    for run in client.search_runs([experiment], condition):
        client.log_batch(run.info.run_id, tags=added)
        for name in taken & set(run.data.tags):
            client.delete_tag(run.info.run_id, name)


CONFIRMED_CONFIGURATION = "confirmed_configuration"
"""Tag of a sweep's run: the configuration that its estimate is of."""
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""Tag of the experiment with the saved view; ignored by MLflow before 3.17."""

SEARCH_FILTER = "tags.configuration LIKE '%' AND tags.reused IS NULL"
"""Filter for trials, without the second runs of reused ones, which would count twice."""

MOST_COLUMNS = 100
"""Maximum number of columns, because MLflow refuses tags of more than 5,000 characters."""

_PACKED = "deflate;"
_STATE = {
    "searchFilter": SEARCH_FILTER,
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "groupBy": {
        "aggregateFunction": "average",
        "groupByKeys": [{"mode": "tag", "groupByData": "configuration"}],
    },
    "useGroupedValuesInCharts": True,
    "hideEmptyCharts": True,
    "runsHiddenMode": "FIRST_10_RUNS",
}


def offer_view(client: Any, experiment: str, event: SweepStarted) -> None:
    """Save the view of trials, unless a user has changed or deleted it.

    Trials are grouped by configuration to average their seeds, best first. The columns are scores,
    the previous columns of the view, and the hyperparameters that this sweep varies.
    """
    stored_tags = client.get_experiment(experiment).tags
    offered, stored = stored_tags.get(VIEW_OFFERED), stored_tags.get(VIEW_TAG)
    has_changed = stored is None or offered != hashlib.sha256(stored.encode()).hexdigest()
    if offered is not None and has_changed:
        return
    known, order = [], None
    if stored is not None:
        old = str(json.loads(stored)["state"]).removeprefix(_PACKED)
        before = json.loads(zlib.decompress(base64.b64decode(old)))
        known, order = before["selectedColumns"], before["orderByKey"]
    dev = stored_dev(event.spec)
    scores = [best_metric(name) for name in dict.fromkeys((dev.search_name, dev.checkpoint_name))]
    tests = "test/builtin" if event.spec.get("data") == "builtin" else "test"
    columns = (
        *("tags.`sweep`", "tags.`method`", "tags.`backbone`"),
        *(f"metrics.`{name}`" for name in (*scores, f"{tests}/avg_sts_spearman")),
        *known,
        *(f"params.`{clean_name(name)}`" for name in event.spec.get("space") or {}),
    )
    shown = [*dict.fromkeys(columns)][:MOST_COLUMNS]
    order = order or f"metrics.`{scores[0]}`"
    state = {**_STATE, "orderByKey": order, "selectedColumns": shown}
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()
    named = {"name": "Configurations, all seeds averaged", "createdAt": 0, "updatedAt": 0}
    view = json.dumps({**named, "state": f"{_PACKED}{packed}"})
    if view != stored:
        client.set_experiment_tag(experiment, VIEW_TAG, view)
        hashed = hashlib.sha256(view.encode()).hexdigest()
        client.set_experiment_tag(experiment, VIEW_OFFERED, hashed)


def _format_progress(ended: int = 0, best: float | None = None) -> str:
    """Format the progress of a sweep: the number of ended trials, where each attempt counts, and
    the highest dev score of a complete trial.
    """
    return json.dumps({"ended": ended, "best": best})


_STATUS = {"COMPLETE": "FINISHED", "PRUNED": "KILLED", "FAIL": "FAILED", "INTERRUPTED": "KILLED"}


@dataclass
class _Unlogged:
    """What is to be logged to a run; a batch can set each parameter and tag only once."""

    metrics: list[Metric] = field(default_factory=list)
    params: dict[str, Param] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    end: tuple[str, int] | None = None
    """The status of a run that has ended, and when, in milliseconds."""


class RunWriter:
    """Writes events to the runs of one experiment.

    Updates of a run are collected, and logged in one batch before runs are read, or at `flush`.

    A run that a user has deleted stays deleted, and its events are skipped. A trial that restarts
    without a checkpoint gets a new run, and the old one is deleted (MLflow can restore it), because
    MLflow cannot delete single points.
    """

    def __init__(self, client: Any, experiment: Any) -> None:
        self._client = client
        self._experiment = experiment.experiment_id
        self._name = experiment.name
        self._positions: dict[str, int] = {}
        self._sweeps: dict[str, Any] = {}
        self._trials: dict[tuple[str, str], str | None] = {}
        self._new_sweeps: set[str] = set()
        """Sweeps that had no run before this writer, which knows the runs of all their trials."""
        self._uncounted: set[str] = set()
        """Runs that this writer created and whose first end it has not counted yet."""
        self._unlogged: defaultdict[str, _Unlogged] = defaultdict(_Unlogged)
        self._progress: dict[str, tuple[int, float | None]] = {}
        """The number of ended trials and the best score of each sweep, by its run."""
        self._unlogged_progress: defaultdict[str, _Unlogged] = defaultdict(_Unlogged)

    def position(self, journal: str) -> int:
        """Return the offset up to which a journal has been applied; 0 for an unknown one.

        Raises StoreError if the store is not the one that this writer knows.
        """
        experiment = self._client.get_experiment(self._experiment)
        position = int(experiment.tags.get(f"{tags.POSITION}.{journal}", 0))
        known = self._positions.setdefault(journal, position)
        if (experiment.name, position) != (self._name, known):
            raise StoreError(
                "MLflow's store was replaced by an older copy or another store; it is being "
                "filled again"
            )
        return position

    def set_position(self, journal: str, offset: int) -> None:
        """Raises StoreError if the store was replaced meanwhile, and lacks what is before."""
        self.position(journal)
        name = f"{tags.POSITION}.{journal}"
        self._client.set_experiment_tag(self._experiment, name, str(offset))
        self._positions[journal] = offset

    def apply(self, journal: str, event: events.Event) -> None:
        """Mirror one event; updates of runs and of sweeps' progress may wait for `flush`.

        Raises OtherSweepError if it starts a sweep, and the experiment has one of that name that is
        of another journal.
        """
        match event:
            case events.TrialPoint():
                if run_id := self._find_trial_run(event):
                    self._unlogged[run_id].metrics += metrics.trial_metrics(event)
            case events.SweepStarted():
                self._start_sweep(journal, event)
            case events.TrialStarted():
                self._start_trial(event)
            case events.TrialFinished():
                if run_id := self._find_trial_run(event):
                    self._count_ended_trial(run_id, event)
                    self._unlogged[run_id].metrics += metrics.trial_metrics(event)
                    self._unlogged[run_id].tags |= tags.later_tags(event)
                    self._unlogged[run_id].end = _STATUS[event.state], milliseconds(event.time)
            case events.ModelDeleted():
                if run_id := self._find_trial_run(event):
                    self._unlogged[run_id].tags |= tags.later_tags(event)
            case events.TrialReused():
                self._reuse_trial(event)
            case events.TestAccessed() | events.TrialEvaluated():
                self._evaluate_trial(event)
            case events.AnnotationWritten():
                write_annotation(self._client, self._experiment, event)
            case events.SweepFinished():
                self._finish_sweep(event)

    def flush(self) -> None:
        """Log everything that is pending; the client splits it into batches.

        The progress of sweeps comes last: without it, everything is logged again.
        """
        self._log_pending(*self._unlogged)
        for run_id, waiting in self._unlogged_progress.items():
            progress = _format_progress(*self._progress[run_id])
            self._client.log_batch(run_id, metrics=waiting.metrics)
            written = {**waiting.tags, tags.PROGRESS: progress}
            self._client.log_batch(run_id, tags=_build_run_tags(written))
        self._unlogged_progress.clear()

    def _log_pending(self, *run_ids: str) -> None:
        """Log what is pending for runs, and then that they have ended, if they have."""
        for run_id in run_ids:
            if (waiting := self._unlogged.pop(run_id, None)) is not None:
                written, params = _build_run_tags(waiting.tags), list(waiting.params.values())
                self._client.log_batch(run_id, waiting.metrics, params, written)
                if waiting.end is not None:
                    status, end = waiting.end
                    self._client.set_terminated(run_id, status, end_time=end)

    def _start_sweep(self, journal: str, event: events.SweepStarted) -> None:
        name, written = tags.run_identity(event.sweep), tags.sweep_tags(event)
        written[tags.JOURNAL] = journal
        known = self._find_runs(name)
        is_active = bool(known) and _is_active(known[0])
        if is_active and known[0].data.tags.get(tags.JOURNAL, journal) != journal:
            raise OtherSweepError(
                f"MLflow at {mask_url(self._client.tracking_uri)} has a sweep {event.sweep!r} "
                f"of another journal in its experiment {self._name!r}, and the two are not "
                "mixed; if it is another lab's SQLite file, move it away, and a new one is "
                "made; otherwise choose another experiment: --set experiment=NAME"
            )
        offer_view(self._client, self._experiment, event)
        if not known:
            sentence = f"Sweep **{event.sweep}**: {event.method} on {event.backbone}."
            noted = tags.format_tags(
                {tags.DESCRIPTION: sentence, tags.PROGRESS: _format_progress()}
            )
            if not self._search_runs(f"tags.sweep = '{event.sweep}'", view=ViewType.ALL):
                self._new_sweeps.add(event.sweep)
            self._create_run(name, event.sweep, milliseconds(event.time), written | noted)
        elif is_active:
            self._reopen_run(known[0].info.run_id, written)
        self._sweeps.pop(event.sweep, None)
        if (sweep := self._find_sweep_run(event.sweep)) is not None:
            # Existing parameters cannot change; another version may have written different ones.
            new = [p for p in metrics.start_params(event) if p.key not in sweep.data.params]
            self._client.log_batch(sweep.info.run_id, params=new)
            self._sweeps.pop(event.sweep, None)

    def _finish_sweep(self, event: events.SweepFinished) -> None:
        sweep = self._find_sweep_run(event.sweep)
        if sweep is None:
            return
        end, run_id = milliseconds(event.time), sweep.info.run_id
        # An interrupted sweep may never be resumed; if it is, its trials are set to running again.
        of_sweep = f"attributes.status = 'RUNNING' AND tags.`{tags.PARENT}` = '{run_id}'"
        for run in self._search_runs(of_sweep):
            self._client.set_terminated(run.info.run_id, "KILLED", end_time=end)
        self._log_estimate(sweep, event.time)
        status = _STATUS[event.state]
        complete = f"attributes.status = 'FINISHED' AND tags.`{tags.PARENT}` = '{run_id}'"
        if status == "FINISHED" and not self._search_runs(complete, view=ViewType.ALL):
            status = "FAILED"
        self._client.set_terminated(run_id, status, end_time=end)

    def _log_estimate(self, sweep: Any, time: datetime) -> None:
        """Log the mean of the best configuration over its further seeds, which did not choose it.

        `best/…` is the highest of all trials, and so too high.
        """
        run_id, dev_search = sweep.info.run_id, sweep.data.tags["dev_search"]
        score, of_sweep = best_metric(dev_search), f"tags.`{tags.PARENT}` = '{run_id}'"
        ended = f"attributes.status = 'FINISHED' AND {of_sweep}"
        searched = self._search_runs(f"{of_sweep} AND tags.role = 'search'")
        tried = [(run.data.tags["configuration"], run.data.tags["state"]) for run in searched]
        compared = {configuration for configuration, state in tried if state in RIVALS}
        confirms_all = len(dict(tried)) <= int(sweep.data.tags.get(tags.CONFIRMED, 0))
        chooses = len(compared) > 1 and not confirms_all
        seeds = defaultdict[str, dict[int, float]](dict)
        for run in self._search_runs(f"{ended} AND tags.role = 'confirm'" if chooses else ended):
            if score in run.data.metrics:
                seed = int(run.data.params["seed"])
                seeds[run.data.tags["configuration"]][seed] = run.data.metrics[score]
        known = {name: scores for name, scores in seeds.items() if len(scores) >= LEAST_FURTHER}
        logged = self._read_run(run_id).data
        if not known:  # earlier, when the sweep ended with fewer trials, there may have been one
            self._client.log_batch(run_id, metrics=withdrawn_metrics(logged.metrics, time))
            if CONFIRMED_CONFIGURATION in logged.tags:
                self._client.delete_tag(run_id, CONFIRMED_CONFIGURATION)
            return
        best = max(known, key=lambda name: (fmean(known[name].values()), name))
        of_best = f"{ended} AND tags.role = 'search' AND tags.configuration = '{best}'"
        chose = [r.data.metrics.get(score) for r in self._search_runs(of_best) if chooses]
        points = estimate_metrics(
            known[best], dev_search=dev_search, time=time, chosen_by=next(iter(chose), None)
        )
        tag = RunTag(CONFIRMED_CONFIGURATION, best)
        self._client.log_batch(run_id, metrics=points, tags=[tag])

    def _start_trial(self, event: events.TrialStarted) -> None:
        started, known = milliseconds(event.time), self._find_known_runs(event)
        ends = (  # of attempts that were complete before
            run.info.end_time
            for run in known
            if _is_active(run) and run.info.status == "FINISHED" and run.info.start_time < started
        )
        if any(end is not None and end <= started for end in ends):
            self._trials[event.sweep, event.trial] = None
            return
        if event.resumed_from is None:
            for run in known:
                if _is_active(run) and run.info.start_time < started:
                    self._client.delete_run(run.info.run_id)
            known = [run for run in known if run.info.start_time == started]
        self._open_trial(event, known)

    def _reuse_trial(self, event: events.TrialReused) -> None:
        """Write a finished child run with the settings, the dev curve and its best value."""
        known = self._find_trial_runs(event)
        run_id, sweep = self._open_trial(event, known), self._find_sweep_run(event.sweep)
        if run_id is None or sweep is None:
            return
        curve = metrics.reused_metrics(event, dev_search=sweep.data.tags["dev_search"])
        self._unlogged[run_id].metrics += curve
        self._count_ended_trial(run_id, event)
        self._unlogged[run_id].end = "FINISHED", milliseconds(event.time)

    def _count_ended_trial(self, run_id: str, event: Ended) -> None:
        """Count an ended trial in the progress of its sweep, before its run ends in MLflow.

        The step at which it ended is a tag of its run, so that a repeated end counts once.
        """
        if (sweep := self._find_sweep_run(event.sweep)) is None:
            return
        sweep_id, dev_search = sweep.info.run_id, sweep.data.tags["dev_search"]
        logged = json.loads(sweep.data.tags.get(tags.PROGRESS, "{}"))
        ended, best = self._progress.setdefault(
            sweep_id, (logged.get("ended", 0), logged.get("best"))
        )
        step, time, stored = ended + 1, milliseconds(event.time), None
        if run_id in self._uncounted:  # it has no earlier end to be read
            self._uncounted.discard(run_id)
        else:
            stored = self._read_run(run_id).data.tags.get(tags.END_POSITION)
        end = f"{step} {time}"
        if stored is not None:
            stored_step, _, stored_time = stored.partition(" ")
            if time <= int(stored_time):  # of this end or a later one
                step, end = int(stored_step), stored
        if step > ended:
            value, complete = event.best_value, getattr(event, "state", "COMPLETE") == "COMPLETE"
            leads = complete and value is not None and (best is None or value > best)
            best = value if leads else best
            self._progress[sweep_id] = step, best
            waiting = self._unlogged_progress[sweep_id]
            logged = [metric.key for metric in waiting.metrics]
            if leads:
                logged += self._client.get_run(sweep_id).data.metrics
            waiting.metrics += best_so_far_metrics(
                event, step=step, best=best, dev_search=dev_search, leads=leads, logged=logged
            )
            if leads:
                leader = self._read_run(run_id).data
                searched = [n.removeprefix(SPACE) for n in sweep.data.params if n.startswith(SPACE)]
                waiting.tags |= {
                    "best_trial": leader.tags[tags.TRIAL],
                    "best_configuration": leader.tags["configuration"],
                    # Inactive dimensions are set to empty, to clear values of the previous leader.
                    **{f"best.{name}": leader.params.get(name, "") for name in searched},
                }
        self._unlogged[run_id].tags[tags.END_POSITION] = end

    def _read_run(self, run_id: str) -> Any:
        """Log what is pending for a run, then read the run."""
        self._log_pending(run_id)
        return self._client.get_run(run_id)

    def _evaluate_trial(self, event: events.TestAccessed | events.TrialEvaluated) -> None:
        """Add tags and scores to a trial's run, which has ended; repeating this changes nothing."""
        if (run_id := self._find_trial_run(event)) is None:
            return
        known, unlogged = self._read_run(run_id).data, self._unlogged[run_id]
        if isinstance(event, events.TrialEvaluated):
            step = int(known.metrics.get("best/step", 0))
            unlogged.metrics += metrics.evaluation_metrics(event, step=step)
        if isinstance(event, events.TrialEvaluated) or tags.TESTS_OPENED not in known.tags:
            unlogged.tags |= tags.later_tags(event)  # the tag of the first access is kept

    def _open_trial(self, event: events.TrialBegun, known: list[Any]) -> str | None:
        """Open or create the trial's run. Returns its id; None if it or its sweep was deleted."""
        sweep, written = self._find_sweep_run(event.sweep), tags.trial_tags(event)
        run_id: str | None = None
        if known and _is_active(known[0]):
            run_id = str(known[0].info.run_id)
            self._reopen_run(run_id, written)
        elif not known and sweep is not None:
            of_sweep = sweep.data.tags.items()
            written = {n: value for n, value in of_sweep if n in tags.INHERITED} | written
            written[tags.PARENT] = sweep.info.run_id
            name = tags.run_identity(event.sweep, event.trial)
            # So that runs of one configuration sort together.
            title = f"{written['method']} {event.configuration[:HASH_DIGITS]} seed {event.seed}"
            title += f" (#{event.number})"
            run_id = self._create_run(name, title, milliseconds(event.time), written)
            self._uncounted.add(run_id)
        if run_id is not None:
            self._unlogged[run_id].params |= {p.key: p for p in metrics.start_params(event)}
        self._trials[event.sweep, event.trial] = run_id
        return run_id

    def _find_trial_run(self, event: events.TrialEvent) -> str | None:
        """Find the id of the trial's run for this attempt; None if it was deleted."""
        key = event.sweep, event.trial
        if key not in self._trials:
            known = self._find_known_runs(event)
            self._trials[key] = known[0].info.run_id if known and _is_active(known[0]) else None
        return self._trials[key]

    def _find_known_runs(self, event: events.TrialEvent) -> list[Any]:
        """Find the trial's runs that started before the event, newest first.

        Runs of later attempts exist too while old entries are applied again.
        """
        time = milliseconds(event.time)
        return [run for run in self._find_trial_runs(event) if run.info.start_time <= time]

    def _find_trial_runs(self, event: events.TrialEvent) -> list[Any]:
        """Find all runs of a trial, deleted ones too, newest first."""
        if event.sweep in self._new_sweeps and (event.sweep, event.trial) not in self._trials:
            return []
        return self._find_runs(tags.run_identity(event.sweep, event.trial))

    def _find_sweep_run(self, name: str) -> Any:
        """Find the sweep's run; None if a user deleted it."""
        if name not in self._sweeps:
            known = [run for run in self._find_runs(tags.run_identity(name)) if _is_active(run)]
            self._sweeps[name] = known[0] if known else None
        return self._sweeps[name]

    def _find_runs(self, name: str) -> list[Any]:
        """Find all runs with an identity, deleted ones too, newest first."""
        return self._search_runs(f"tags.`{tags.IDENTITY}` = '{name}'", view=ViewType.ALL)

    def _search_runs(self, condition: str, *, view: int = ViewType.ACTIVE_ONLY) -> list[Any]:
        """Search for runs, newest first; everything pending is logged before."""
        self._log_pending(*self._unlogged)
        newest_first = ["attributes.start_time DESC"]
        search, here = self._client.search_runs, [self._experiment]
        return list(search(here, condition, view, order_by=newest_first))

    def _create_run(self, name: str, title: str, started: int, written: Mapping[str, str]) -> str:
        written = {**written, tags.IDENTITY: name}
        run = self._client.create_run(self._experiment, started, written, run_name=title)
        return str(run.info.run_id)

    def _reopen_run(self, run_id: str, written: Mapping[str, str]) -> None:
        self._client.log_batch(run_id, tags=_build_run_tags(written))
        self._client.update_run(run_id, status="RUNNING")


def _is_active(run: Any) -> bool:
    return bool(run.info.lifecycle_stage == "active")


def _build_run_tags(written: Mapping[str, str]) -> list[RunTag]:
    return [RunTag(name, value) for name, value in written.items()]
