"""Run a sweep's trials by Ray Tune, whose searcher and scheduler leave every decision to us."""

import logging
import signal
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from cse_platform.control.requests import Requests
from cse_platform.errors import SweepRefusedError
from cse_platform.runner import nodes as cluster
from cse_platform.runner.checkpoints import request_checkpoints, withdraw_request
from cse_platform.runner.evaluation import evaluate_selected
from cse_platform.runner.failure_policy import BadNodes, TrialLimits
from cse_platform.runner.failures import (
    Failure,
    failure_from_report,
    failure_without_report,
    with_last_lines,
)
from cse_platform.runner.planner import Planner
from cse_platform.runner.ray_process import OwnRayLost, check_own, is_own, join_cluster, stop_own
from cse_platform.runner.report_messages import REPORT, read_report
from cse_platform.runner.reports import ReportReceiver
from cse_platform.runner.state import LiveTrial, SweepState
from cse_platform.runner.trial_outputs import TrialOutputs
from cse_platform.runner.worker import make_reusable_trainable, trainable
from cse_platform.signals import (
    Grace,
    grace_after_sigterm,
    interrupt_handler_kept,
    interrupts_deferred,
)
from cse_platform.stores.sink_process import SinkProcess
from cse_platform.sweep.stores import SweepStores

MAX_LOST = 3
"""How often a Ray that this process started may die in one start of a sweep."""

GRACE = 10.0
"""Seconds that a SIGTERM waits for the checkpoints of the next dev points. A trial on a GPU reaches
one in that time, and whoever sends a SIGTERM often kills after 30 s."""

_log = logging.getLogger(__name__)

_MANY = 1_000_000
"""How many idle processes are kept for the next trials; Ray by itself keeps only one."""


class SweepScheduler(FIFOScheduler):  # type: ignore[misc]  # Ray is untyped
    """Receives every report of every trial; Ray calls it before any other code of the driver.

    Its searcher suggests the planner's trials.
    """

    def __init__(
        self, planner: Planner, results: ReportReceiver, requests: Requests, outputs: TrialOutputs
    ) -> None:
        super().__init__()
        self.planner, self.results, self.requests = planner, results, requests
        self.outputs, self.state = outputs, planner.state
        self.searcher = PlannedSearcher(self)
        self.live: dict[str, LiveTrial] = {}
        """The trials that have not ended, by Ray's trial id."""
        self.broken: Exception | None = None
        self.grace = Grace(0)
        """The grace period between a SIGTERM and the end."""
        self._limits, self._bad_nodes = TrialLimits(self.state.spec.resources), BadNodes()
        self._idle: tuple[tune.PlacementGroupFactory | None, int] = None, 0
        """The placement of the last trial, and how many idle processes of it are kept."""
        self._rays_handler: Any = None
        """Ray's handler of SIGINT, which stands while its loop runs; None before it does."""
        self._unsaved: set[LiveTrial] | None = None
        """The trials that must save before the end; None until SIGTERM asks for it."""
        self._stopping: set[LiveTrial] = set()
        """The trials that a person stops."""

    def __getstate__(self) -> dict[str, Any]:
        """Return no state: Ray pickles it for `Tuner.restore`, which no sweep uses."""
        return {}

    def on_trial_add(self, controller: Any, trial: Trial) -> None:
        """Note Ray's trial; on a cluster, restrict it to nodes that have passed their checks."""
        live = self.live[trial.trial_id]
        live.ray_trial = trial
        if (nodes := self.state.nodes) is not None:
            live.may_run_on = frozenset(nodes.passed)
            trial.update_resources(nodes.placement)
        self._bound_idle(controller, trial.placement_group_factory)

    def _bound_idle(
        self, controller: Any, placement: tune.PlacementGroupFactory | None = None
    ) -> None:
        """Keep idle processes of this placement alone, and no more than trials may still begin.

        Without one, it is that of the last trial.
        """
        (former, kept), limit = self._idle, self.state.history.at_most
        placement = placement or former
        count = _MANY if limit is None else max(limit - len(self.live), 0)
        if placement is None or (placement, count) == self._idle:
            return
        processes = controller._actor_cache
        if former is None:
            processes.increase_max(None)  # otherwise Ray keeps one process beyond the bounds
        else:
            processes.decrease_max(former, kept)
        processes.increase_max(placement, count)
        self._idle = placement, count

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Act on requests; end waiting trials that are stopped, or whose nodes have gone.

        Ray calls this at every iteration of its loop. It chooses none: Ray itself starts pending
        trials in order, without a look at all others. A `Callback` would do the same, but Ray
        imports MLflow, for seconds, as soon as there is one.
        """
        self.poll()
        self._bound_idle(tune_controller)
        nodes = self.state.nodes
        for live in self._list_trials(Trial.PENDING):
            if live in self._stopping or (nodes and nodes.have_gone(live.may_run_on or ())):
                tune_controller.stop_trial(live.ray_trial)

    def on_trial_result(self, controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        stop = True
        with self.errors_kept():
            stop = self._process_result(trial, result)
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)

    def _process_result(self, trial: Trial, result: dict[str, Any]) -> bool:
        """Process what a worker reports. Returns True to stop the trial.

        What a method hands to Ray itself is dropped, and so are reports of another attempt.
        """
        if REPORT not in result:
            return False
        live = self.live[trial.trial_id]
        try:
            report = read_report(result[REPORT])
        except ValueError as error:
            live.refused = str(error)
            return True
        if report.attempt != trial.trial_id:
            _log.warning("trial %d: a report of another attempt is dropped", live.trial.number)
            return False
        live.node = report.node or live.node
        if report.begins:
            return False
        self._limits.note_report(live)
        if report.output is not None:
            self.outputs.add(live, report.output)
        if report.step and live.node is not None:
            self._bad_nodes.note_progress(live.trial.key, live.node)
        stops = self.results.receive(live, report)
        if report.step is not None and report.step == report.checkpoint_step and self._unsaved:
            self._unsaved.discard(live)
        return stops

    def on_trial_remove(self, controller: Any, trial: Trial) -> None:
        """Record the end of a trial whose process never ran."""
        live = self.live.pop(trial.trial_id)
        with self.errors_kept():
            if live.stopped:
                self.results.record_end(live)
            else:
                gone = "the nodes that it waited for are gone"
                self.results.record_failure(live, Failure(gone, traceback=gone, end="crash"))

    def on_trial_complete(self, controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        live = self.live.pop(trial.trial_id)
        self._bound_idle(controller)  # before Ray decides on its process
        self.outputs.end_process(live, trial.trial_id)
        if self.broken is None:
            with self.errors_kept():
                self.results.record_end(live)

    def on_trial_error(self, controller: Any, trial: Trial) -> None:
        """Record the failure of a trial; avoid a node on which trials keep failing."""
        live, state = self.live.pop(trial.trial_id), self.state
        printed = self.outputs.end_process(live, trial.trial_id)
        # Ray pickles the error into the sweep's storage, and would unpickle it at the end.
        trial.run_metadata.pickled_error_filename = None
        with self.errors_kept():
            if live.killed:
                failure = Failure(live.killed, traceback=live.killed, end="limit")
            elif live.raised:
                failure = failure_from_report(live.raised, state.method)
            else:
                text = ""
                with suppress(OSError, TypeError):  # on a full disk there is no such file
                    text = Path(trial.error_file).read_text(errors="replace")
                failure = failure_without_report(text, printed, state.method)
            self.results.record_failure(live, with_last_lines(failure, printed))
            if state.nodes is None or live.node is None or live.stopped:
                return
            keys = self._bad_nodes.note_failure(live.trial.key, live.node)
            why = f"the last {len(keys)} trials failed there, while others succeed elsewhere"
            if keys and state.nodes.avoid(live.node, f"{why} ({failure.message})"):
                failed = [state.history.trials[key] for key in keys]
                state.to_retry += [trial for trial in failed if trial.state == "FAIL"]

    @property
    def is_ending(self) -> bool:
        """Whether no further trial may begin.

        Ray's loop restores the former handler when it receives a Ctrl-C.
        """
        is_interrupted = signal.getsignal(signal.SIGINT) is not self._rays_handler
        return self.grace.has_begun or is_interrupted or self.broken is not None

    @contextmanager
    def errors_kept(self) -> Iterator[None]:
        """Keep an error in `broken`, which ends the sweep; Ray would only log it."""
        try:
            yield
        except Exception as error:
            self.broken = error

    def _list_trials(self, status: str) -> list[LiveTrial]:
        """List the trials that Ray has and that are in this state in Ray."""
        live = self.live.values()
        return [trial for trial in live if trial.ray_trial and trial.ray_trial.status == status]

    def has_room(self) -> bool:
        """Whether one more trial has a free slot.

        Where others use the cluster too, one trial always queues for a slot. A Ray that this
        process started is not queried: the planner knows its slots, and if its GCS has died, a
        query would block for a minute and then end this process.
        """
        nodes = self.state.nodes
        return nodes is None or len(self._list_trials(Trial.PENDING)) <= nodes.count_free()

    def poll(self) -> None:
        """Act on the requests to the sweep since the last call, and follow the cluster's nodes.

        Raises OwnRayLost if a Ray that this process started has died.
        """
        check_own()
        if self._rays_handler is None:
            self._rays_handler = signal.getsignal(signal.SIGINT)
        if self.broken is not None:
            return
        with self.errors_kept():
            if self.grace.has_begun and not self.grace.is_over:
                self._end_with_checkpoints()
            self.state.apply_requests(self.requests.take(), stop_trial=self._stop_trial)
            nodes = self.state.nodes
            if nodes is not None and nodes.poll():
                startable = 0 if self.is_ending else self.planner.count_startable()
                nodes.ask_for_slots(max(startable - nodes.count_free(), 0))
            running = set(self._list_trials(Trial.RUNNING))
            for live in (self._stopping & running) | set(self._limits.find_broken(running)):
                self._stopping.discard(live)
                ray.kill(live.ray_trial.temporary_state.ray_actor)  # works even if Python hangs

    def _end_with_checkpoints(self) -> None:
        """End Ray's loop once each trial with an unsaved dev point has saved, or time is up."""
        running = set(self._list_trials(Trial.RUNNING))
        if self._unsaved is None:
            self._unsaved = {
                live
                for live in running
                if (live.trial.last_step or 0) > (live.trial.checkpoint or (0, ""))[0]
            }
            with suppress(OSError):  # the storage is gone, so no checkpoint can be written
                if self._unsaved:
                    request_checkpoints(self.state.folders.checkpoints)
        self._unsaved &= running
        if not self._unsaved or self.grace.has_passed:
            self.grace.end()

    def _stop_trial(self, live: LiveTrial) -> None:
        """Let a trial end, by the end of its process."""
        self.results.stop(live)
        if live in self.live.values():
            self._stopping.add(live)


class PlannedSearcher(Searcher):  # type: ignore[misc]  # Ray is untyped
    """Suggests the planner's next trial. It saves nothing: a sweep resumes from its journal."""

    def __init__(self, scheduler: SweepScheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def set_search_properties(self, *arguments: Any, **keywords: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        scheduler = self._scheduler
        scheduler.poll()  # while nothing runs, Ray's loop does nothing but ask for a trial
        planner, state = scheduler.planner, scheduler.state
        is_ending = scheduler.is_ending
        with scheduler.errors_kept():
            if not is_ending and scheduler.has_room() and (trial := planner.next()):
                scheduler.live[trial_id] = state.live[trial.key]
                return planner.param_space(trial) | {"tells_node": state.nodes is not None}
        done = state.finished or state.gave_up is not None or scheduler.broken is not None
        return Searcher.FINISHED if done or is_ending else None

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Do nothing: Ray has already called the scheduler."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Nothing to save."""


class RayExecutor:
    """Runs the trials of sweeps on Ray, on this machine or on a cluster.

    Without the address of a cluster, Ray is started on this machine. The code is shipped to a
    cluster's nodes, unless `ship` is False.
    """

    def __init__(self, *, address: str | None = None, ship: bool = True) -> None:
        self._address, self._ship = address, ship
        self._sinks = SinkProcess()
        self.open_sink = self._sinks.open  # where its work does not hold up the trials

    def prepare(self) -> None:
        """Start Ray on this machine, unless trials run on a cluster, which `run_trials` joins."""
        if self._address is None:
            with interrupts_deferred():
                join_cluster(None)

    def run_trials(self, state: SweepState, requests: Requests, stores: SweepStores) -> None:
        """Run the planner's trials until none is left, the sweep gives up, or Ctrl-C.

        Afterwards `state.finished`, `state.gave_up` and `state.live` say which of these happened.
        If a Ray that this process started dies, it is started again.

        Raises SweepRefusedError if the cluster lacks the resources of a trial, or if that Ray dies
        `MAX_LOST` times.
        """
        for lost in range(MAX_LOST):
            if lost:
                _log.warning("Ray on this machine died and is being restarted")
            with suppress(OwnRayLost):
                self._run_on_ray(state, requests, stores)
                return
            stop_own()
        raise SweepRefusedError(
            f"Ray on this machine died {MAX_LOST} times; run the same command to continue"
        )

    score_models = staticmethod(evaluate_selected)

    def close(self) -> None:
        """Shut down the Ray and the process of sinks that this process has started."""
        stop_own()
        self._sinks.close()

    def _run_on_ray(self, state: SweepState, requests: Requests, stores: SweepStores) -> None:
        slot = state.spec.resources
        self.prepare()
        check_own()
        if self._address is not None and state.nodes is None:
            with interrupts_deferred():
                cluster.join_with_code(self._address, [state.spec], ship=self._ship)
        cluster.refuse_too_small(slot)
        state.lease.on_lost = interrupt_main  # stops the trials as a Ctrl-C does
        if is_own():
            # Counted once: if its GCS died during a query, Ray would block for a minute and then
            # end this process.
            slots = cluster.capacity(slot)
            planner = Planner(state, capacity=lambda: slots)
        else:
            nodes = state.nodes = state.nodes or cluster.NodeChecks(state.spec, stores.checkpoints)
            nodes.wait()
            planner = Planner(state, capacity=lambda: cluster.capacity(slot, among=nodes.passed))
        outputs = TrialOutputs(stores.folder, stores.checkpoints)
        scheduler = SweepScheduler(planner, ReportReceiver(state, stores), requests, outputs)
        try:
            _run_tuner(state, scheduler)
        finally:
            for trial_id, live in scheduler.live.items():  # those that were cut off
                outputs.end_process(live, trial_id)
            if state.nodes is not None:
                state.nodes.ask_for_slots(0)
        if scheduler.broken is not None:
            raise scheduler.broken


def _run_tuner(state: SweepState, scheduler: SweepScheduler) -> None:
    """Run trials until the searcher has no more; returns early on Ctrl-C."""
    spec, slot = state.spec, state.spec.resources
    storage, _, name = state.folders.checkpoints.rpartition("/")
    tuner = tune.Tuner(
        tune.with_resources(
            make_reusable_trainable(trainable(spec.method)), {"cpu": slot.cpu, "gpu": slot.gpu}
        ),
        tune_config=tune.TuneConfig(
            search_alg=scheduler.searcher,
            scheduler=scheduler,
            num_samples=-1,
            reuse_actors=not spec.resources.fresh_process,
            trial_dirname_creator=lambda trial: str(trial.trial_id),
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=storage,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=0),  # the planner restarts trials
        ),
    )
    with suppress(OSError):  # Ray reports what is wrong with the storage
        withdraw_request(state.folders.checkpoints)
    # Otherwise Ray's own handler would swallow a later Ctrl-C.
    with grace_after_sigterm(GRACE) as scheduler.grace, interrupt_handler_kept():
        tuner.fit()
