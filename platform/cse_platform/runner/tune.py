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

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.averaging import average_confirmed
from cse_platform.runner.checkpoints import request_checkpoints, withdraw_request
from cse_platform.runner.evaluation import evaluate_selected
from cse_platform.runner.failure_policy import BadNodes, TrialLimits
from cse_platform.runner.failures import (
    Failure,
    failure_from_report,
    failure_without_report,
    with_last_lines,
)
from cse_platform.runner.nodes import (
    NodeChecks,
    capacity,
    count_slots,
    join_with_code,
    refuse_too_small,
)
from cse_platform.runner.planner import Planner
from cse_platform.runner.ray_process import OwnRayLost, check_own, is_own, join_cluster, stop_own
from cse_platform.runner.reports import REPORT, checkpoint_location, read_report
from cse_platform.runner.requests import Requests
from cse_platform.runner.results import Results
from cse_platform.runner.state import LiveTrial, SweepState
from cse_platform.runner.trial_outputs import TrialOutputs
from cse_platform.runner.worker import make_reusable, trainable
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

_log = logging.getLogger(__name__)


_MANY = 1_000_000
"""How many idle processes are kept for the next trials; Ray by itself keeps only one."""


class ReportingScheduler(FIFOScheduler):  # type: ignore[misc]  # Ray is untyped
    """Receives every report of every trial; Ray calls it before any other code of the driver."""

    def __init__(self, hooks: "Hooks") -> None:
        super().__init__()
        self.hooks = hooks
        self._bad_nodes = BadNodes()

    def on_trial_add(self, controller: Any, trial: Trial) -> None:
        """Note Ray's trial; on a cluster, restrict it to nodes that have passed their checks.

        Idle processes are kept for trials of the same placement.
        """
        hooks = self.hooks
        hooks.live[trial.trial_id].ray_trial = trial
        if (nodes := hooks.planner.state.nodes) is not None:
            hooks.live[trial.trial_id].may_run_on = frozenset(nodes.passed)
            trial.update_resources(nodes.placement)
        if (placement := trial.placement_group_factory) != hooks.placement:
            idle = controller._actor_cache
            if hooks.placement is not None:
                idle.decrease_max(hooks.placement, _MANY)
            idle.increase_max(placement, _MANY)
            hooks.placement = placement

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Act on requests; end waiting trials that are stopped, or whose nodes have gone.

        Ray calls this at every iteration of its loop. It chooses none: Ray itself starts pending
        trials in order, without a look at all others. A `Callback` would do the same, but Ray
        imports MLflow, for seconds, as soon as there is one.
        """
        self.hooks.heed()
        for live in self.hooks.list_hopeless():
            tune_controller.stop_trial(live.ray_trial)

    def on_trial_result(self, controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        stop = True
        with self.hooks.errors_kept():
            stop = self._process_result(trial, result)
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)

    def _process_result(self, trial: Trial, result: dict[str, Any]) -> bool:
        """Process what a worker reports. Returns True to stop the trial.

        What a method hands to Ray itself is dropped, and so are reports of another attempt.
        """
        if REPORT not in result:
            return False
        live, results = self.hooks.live[trial.trial_id], self.hooks.results
        root = results.state.folders.checkpoints
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
        self.hooks.limits.note_report(live)
        live.raised = report.error or live.raised
        if report.output is not None:
            self.hooks.outputs.add(live, report.output)
        if report.waits is not None:
            results.warn_waiting(live, report.waits)
        if report.model_problem is not None:
            live.model_problem = report.model_problem or None
        if report.unread:
            results.warn_unread(live.trial, report.unread)
        if report.step is None:
            return False
        if report.step > 0 and live.node is not None:
            self._bad_nodes.note_progress(live.trial.key, live.node)
        step = report.checkpoint
        place = None if step is None else checkpoint_location(root, report.attempt, step)
        is_own = step == report.step
        stops = results.point(
            live,
            step=report.step,
            metrics=report.metrics,
            checkpoint=place if is_own else None,
            provenance=report.provenance,
        )
        if step is not None and place is not None and not is_own:
            results.checkpoint(live, step=step, place=place)
        if is_own and self.hooks.unsaved is not None:
            self.hooks.unsaved.discard(live)
        return stops

    def on_trial_remove(self, controller: Any, trial: Trial) -> None:
        """Record the end of a trial whose process never ran."""
        live = self.hooks.live.pop(trial.trial_id)
        with self.hooks.errors_kept():
            if live.stopped:
                self.hooks.results.record_end(live)
            else:
                gone = "the nodes that it waited for have gone"
                self.hooks.results.record_failure(live, Failure(gone, traceback=gone, end="crash"))

    def on_trial_complete(self, controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        live = self.hooks.live.pop(trial.trial_id)
        self.hooks.outputs.end(live, trial.trial_id)
        if self.hooks.broken is None:
            with self.hooks.errors_kept():
                self.hooks.results.record_end(live)

    def on_trial_error(self, controller: Any, trial: Trial) -> None:
        """Record the failure of a trial; avoid a node on which trials keep failing."""
        live, state = self.hooks.live.pop(trial.trial_id), self.hooks.results.state
        printed = self.hooks.outputs.end(live, trial.trial_id)
        # Ray pickles the error into the sweep's storage, and would unpickle it at the end.
        trial.run_metadata.pickled_error_filename = None
        with self.hooks.errors_kept():
            if live.killed:
                failure = Failure(live.killed, traceback=live.killed, end="limit")
            elif live.raised:
                failure = failure_from_report(live.raised, state.method)
            else:
                text = ""
                with suppress(OSError, TypeError):  # on a full disk there is no such file
                    text = Path(trial.error_file).read_text(errors="replace")
                failure = failure_without_report(text, printed, state.method)
            failure = with_last_lines(failure, printed)
            self.hooks.results.record_failure(live, failure)
            if state.nodes is None or live.node is None or live.stopped:
                return
            keys = self._bad_nodes.note_failure(live.trial.key, live.node)
            why = f"the last {len(keys)} trials failed there and others do well elsewhere"
            if keys and state.nodes.avoid(live.node, f"{why} ({failure.said})"):
                failed = [state.history.trials[key] for key in keys]
                state.to_retry += [trial for trial in failed if trial.state == "FAIL"]


class Hooks:
    """Connects the searcher and the scheduler of one sweep, and the objects that both work on."""

    def __init__(
        self, planner: Planner, results: Results, requests: Requests, outputs: TrialOutputs
    ) -> None:
        self.planner, self.results, self.requests = planner, results, requests
        self.outputs = outputs
        self.limits = TrialLimits(planner.state.spec.resources)
        self.placement: tune.PlacementGroupFactory | None = None
        """The placement of the last trial."""
        self.live: dict[str, LiveTrial] = {}
        """The trials that have not ended, by Ray's trial id."""
        self.broken: Exception | None = None
        self.rays_handler: Any = None
        """Ray's handler of SIGINT, which stands while its loop runs; None before it does."""
        self.grace = Grace(0)
        """The grace period between a SIGTERM and the end."""
        self.unsaved: set[LiveTrial] | None = None
        """The trials that must save before the end; None until SIGTERM asks for it."""
        self._stopping: set[LiveTrial] = set()
        """The trials that a person stops."""
        self.searcher = PlannedSearcher(self)
        self.scheduler = ReportingScheduler(self)

    @property
    def is_ending(self) -> bool:
        """Whether no further trial may begin.

        Ray's loop restores the former handler when it receives a Ctrl-C.
        """
        is_interrupted = signal.getsignal(signal.SIGINT) is not self.rays_handler
        return self.grace.has_begun or is_interrupted

    @contextmanager
    def errors_kept(self) -> Iterator[None]:
        """Keep an error in `broken`, which ends the sweep; Ray would only log it."""
        try:
            yield
        except Exception as error:
            self.broken = error

    def running(self) -> set[LiveTrial]:
        """Return the trials whose processes run."""
        return {live for live in self.live.values() if _status_of(live) == Trial.RUNNING}

    def list_hopeless(self) -> list[LiveTrial]:
        """List the trials without a process that a person stops, or whose nodes have gone."""
        nodes = self.planner.state.nodes
        return [
            live
            for live in self.live.values()
            if _status_of(live) == Trial.PENDING
            and (live in self._stopping or (nodes and nodes.have_gone(live.may_run_on or ())))
        ]

    def has_room(self) -> bool:
        """Whether one more trial has a free slot.

        Where others use the cluster too, one trial always queues for a slot. A Ray that this
        process started is not queried: the planner knows its slots, and if its GCS has died, a
        query would block for a minute and then end this process.
        """
        if self.planner.state.nodes is None:
            return True
        waiting = sum(_status_of(live) == Trial.PENDING for live in self.live.values())
        slot = self.planner.state.spec.resources.slot
        return bool(waiting <= count_slots(slot, ray.available_resources()))

    def heed(self) -> None:
        """Act on the requests to the sweep since the last call, and follow the cluster's nodes.

        Raises OwnRayLost if a Ray that this process started has died.
        """
        check_own()
        if self.rays_handler is None:
            self.rays_handler = signal.getsignal(signal.SIGINT)
        if self.broken is not None:
            return
        with self.errors_kept():
            if self.grace.has_begun and not self.grace.is_over:
                self._end_with_checkpoints()
            self.requests.heed(self.planner.state, stop_trial=self._stop_trial)
            if self.planner.state.nodes is not None:
                self.planner.state.nodes.look()
            running = self.running()
            for live in (self._stopping & running) | set(self.limits.find_broken(running)):
                self._stopping.discard(live)
                ray.kill(live.ray_trial.temporary_state.ray_actor)  # works even if Python hangs

    def _end_with_checkpoints(self) -> None:
        """End Ray's loop once each trial with an unsaved dev point has saved, or time is up."""
        running = self.running()
        if self.unsaved is None:
            self.unsaved = {
                live for live in running if live.trial.step > (live.trial.checkpoint or (0, ""))[0]
            }
            with suppress(OSError):  # the storage is gone, so no checkpoint can be written
                if self.unsaved:
                    request_checkpoints(self.results.state.folders.checkpoints)
        self.unsaved &= running
        if not self.unsaved or self.grace.has_passed:
            self.grace.end()

    def _stop_trial(self, live: LiveTrial) -> None:
        """Let a trial end, by the end of its process."""
        self.results.stop(live)
        if live in self.live.values():
            self._stopping.add(live)

    def __getstate__(self) -> dict[str, Any]:
        """Return no state: Ray pickles its searcher for `Tuner.restore`, which no sweep uses."""
        return {}


def _status_of(live: LiveTrial) -> str | None:
    """Return the status of a trial in Ray; None before Ray has it."""
    return None if live.ray_trial is None else str(live.ray_trial.status)


class PlannedSearcher(Searcher):  # type: ignore[misc]  # Ray is untyped
    """Suggests the planner's next trial. It saves nothing: a sweep resumes from its journal."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self.hooks = hooks

    def set_search_properties(self, *arguments: Any, **keywords: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        hooks = self.hooks
        hooks.heed()  # while nothing runs, Ray's loop does nothing but ask for a trial
        stops = hooks.is_ending
        state = hooks.planner.state
        with hooks.errors_kept():
            goes_on = hooks.broken is None and not stops
            if goes_on and hooks.has_room() and (trial := hooks.planner.next()):
                hooks.live[trial_id] = state.live[trial.key]
                tells_node = state.nodes is not None
                return hooks.planner.param_space(trial) | {"tells_node": tells_node}
        done = state.finished or state.gave_up is not None or hooks.broken is not None or stops
        return Searcher.FINISHED if done else None

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
        self.open_sink = self._sinks.open

    def run_trials(self, state: SweepState, requests: Requests, stores: SweepStores) -> None:
        """Run the planner's trials; if a Ray that this process started dies, start it again.

        Returns early on Ctrl-C. Raises SweepRefusedError if the cluster lacks the resources of a
        trial, or if that Ray dies `MAX_LOST` times.
        """
        lost = 0
        while lost < MAX_LOST:
            with suppress(OwnRayLost):
                self._run_on_ray(state, requests, stores)
                return
            lost += 1
            if lost < MAX_LOST:
                _log.warning("Ray on this machine has died; it is started again")
            stop_own()
            state.cut_off()
        raise SweepRefusedError(
            f"Ray on this machine has died {MAX_LOST} times; the same command goes on from here"
        )

    average_models = staticmethod(average_confirmed)
    score_models = staticmethod(evaluate_selected)

    def close(self) -> None:
        """Shut down the Ray and the process of sinks that this process has started."""
        stop_own()
        self._sinks.close()

    def _run_on_ray(self, state: SweepState, requests: Requests, stores: SweepStores) -> None:
        slot = state.spec.resources.slot
        with interrupts_deferred():
            if self._address is None:
                join_cluster(None)
            elif state.nodes is None:
                join_with_code(self._address, [state.spec], ship=self._ship)
        refuse_too_small(slot)
        state.lease.on_lost(interrupt_main)  # stops the trials as a Ctrl-C does
        if is_own():
            # Counted once: if its GCS died during a query, Ray would block for a minute and then
            # end this process.
            slots = capacity(slot)
            planner = Planner(state, capacity=lambda: slots)
        else:
            nodes = state.nodes = state.nodes or NodeChecks(state.spec, storage=stores.checkpoints)
            nodes.wait()
            planner = Planner(state, capacity=lambda: capacity(slot, among=nodes.passed))
        outputs = TrialOutputs(stores.folder, stores.checkpoints)
        hooks = Hooks(planner, Results(state, stores), requests, outputs)
        try:
            _run_tuner(state, hooks)
        finally:
            for trial_id, live in hooks.live.items():  # those that were cut off
                outputs.end(live, trial_id)
        if hooks.broken is not None:
            raise hooks.broken


def _run_tuner(state: SweepState, hooks: Hooks) -> None:
    """Run trials until the searcher has no more; returns early on Ctrl-C."""
    spec, slot = state.spec, state.spec.resources.slot
    storage, _, name = state.folders.checkpoints.rpartition("/")
    tuner = tune.Tuner(
        tune.with_resources(
            make_reusable(trainable(spec.method)), {"cpu": slot.cpu, "gpu": slot.gpu}
        ),
        tune_config=tune.TuneConfig(
            search_alg=hooks.searcher,
            scheduler=hooks.scheduler,
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
    with grace_after_sigterm(spec.resources.grace) as hooks.grace, interrupt_handler_kept():
        tuner.fit()
