"""Ray Tune's searcher and scheduler. They pass every decision on to the planner and the results.

An exception in either would end the whole sweep. So it is caught and kept, no further trial is
started, and the launcher raises it when the running trials have ended.
"""

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from cse_platform.runner.failures import Failure, reported, unreported
from cse_platform.runner.planning.limits import TrialLimits
from cse_platform.runner.planning.planner import Planner
from cse_platform.runner.planning.requests import Requests
from cse_platform.runner.processes.node_checks import OnCheckedNodes
from cse_platform.runner.processes.nodes import free_slots
from cse_platform.runner.processes.own_ray import check_own
from cse_platform.runner.processes.worker import WAITS
from cse_platform.runner.processes.worker_process import FAILURE
from cse_platform.runner.results import Results

_MOST_WORKERS = 100_000
"""More than any cluster runs at once."""


class Hooks:
    """The searcher and the scheduler of one sweep, and the trials that both work on."""

    def __init__(self, planner: Planner, results: Results, requests: Requests) -> None:
        self.planner, self.results, self.requests = planner, results, requests
        self.controller: Any = None
        """Ray's; None before the first trial."""
        self.keys: dict[str, str] = {}
        """Ray's trial id -> our key."""
        self.broken: Exception | None = None
        self.rays_handler: Any = None
        """Of a Ctrl-C, while Ray's loop runs."""
        self.searcher = PlannedSearcher(self)
        self.scheduler = ReportingScheduler(self)
        self.listener = Listener(self)

    @property
    def is_interrupted(self) -> bool:
        """Whether Ray's loop has heard a Ctrl-C: it then puts the former handler back."""
        return signal.getsignal(signal.SIGINT) is not self.rays_handler

    def has_room(self) -> bool:
        """Whether one more trial has a free slot, beside those that wait for their process.

        Where others use the cluster too, one trial waits for its turn.
        """
        live = () if self.controller is None else self.controller.get_live_trials()
        waiting = len([trial for trial in live if trial.status == Trial.PENDING])
        state = self.planner.state
        free = free_slots(state.slot, among=state.checked)
        return waiting == 0 or waiting < free + self._idle_workers()

    def _idle_workers(self) -> int:
        with suppress(AttributeError):  # it is Ray's own, and another version may lack it
            return int(self.controller._actor_cache.num_cached_objects)
        return 0

    def heed(self) -> None:
        """Do what was asked of the sweep since the last call."""
        if self.broken is not None:
            return
        try:
            self.requests.heed(self.planner.state, stop_trial=self._stop)
            self._heed_nodes()
        except Exception as error:
            self.broken = error

    def _heed_nodes(self) -> None:
        """Check the nodes that have joined; a trial that waits for a place can get those, too."""
        nodes = self.planner.state.nodes
        if nodes is None or not nodes.look():
            return  # none has passed since
        with suppress(AttributeError):  # it is Ray's own, and another version may lack it
            manager = self.controller._actor_manager._resource_manager
            waiting = [t for t in self.controller.get_live_trials() if t.status == Trial.PENDING]
            for _, trial in zip(manager.get_resource_futures(), waiting, strict=False):
                manager.cancel_resource_request(trial.placement_group_factory)
                manager.request_resources(trial.placement_group_factory)

    def _stop(self, key: str) -> None:
        self.results.stop(key)
        if key not in self.planner.state.live:
            self.results.ended(key)
            return
        for trial in self.controller.get_trials():
            if self.keys.get(trial.trial_id) == key:
                self.controller.stop_trial(trial)

    def __getstate__(self) -> dict[str, Any]:
        """Empty: Ray pickles its searcher for Ray's own restore, which no sweep uses."""
        return {}


class Listener(Callback):  # type: ignore[misc]  # Ray is untyped
    """Hears what is asked of the sweep, at every turn of Ray's loop."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks

    def setup(self, **info: Any) -> None:
        self.hooks.rays_handler = signal.getsignal(signal.SIGINT)

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        check_own()
        self.hooks.heed()


class PlannedSearcher(Searcher):  # type: ignore[misc]  # Ray is untyped
    """Suggests the planner's next trial. It saves nothing: a sweep resumes from its journal."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self.hooks = hooks

    def set_search_properties(self, *arguments: Any, **keywords: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        hooks = self.hooks
        check_own()
        hooks.heed()  # while nothing runs, Ray asks for a trial again and again, and does no more
        stops = hooks.is_interrupted
        try:
            goes_on = hooks.broken is None and not stops
            if goes_on and hooks.has_room() and (trial := hooks.planner.next()):
                hooks.keys[trial_id] = trial.key
                return hooks.planner.param_space(trial)
        except Exception as error:
            hooks.broken = error
        state = hooks.planner.state
        done = state.finished or state.gave_up is not None or hooks.broken is not None or stops
        return Searcher.FINISHED if done else None

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Do nothing: Ray has called the scheduler already."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Nothing to save."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


class ReportingScheduler(FIFOScheduler):  # type: ignore[misc]  # Ray is untyped
    """Receives every report of every trial; Ray calls it before any other code of the driver."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self.hooks = hooks
        self._keeps_workers = False
        self._told: dict[str, dict[str, Any]] = {}
        """By Ray's trial id, what its worker has told of its failure."""
        self._killed: dict[str, str] = {}
        """By Ray's trial id, why its process was killed."""
        self._limits = TrialLimits(hooks.results.state.spec.resources)

    def on_trial_add(self, controller: Any, trial: Trial) -> None:
        """Let Ray keep every idle worker for the next trial; by itself it keeps a single one.

        On a cluster, the trial is placed where nodes have passed their checks.
        """
        self.hooks.controller = controller
        if (nodes := self.hooks.planner.state.nodes) is not None:
            trial.update_resources(OnCheckedNodes(trial.placement_group_factory, nodes))
        if not self._keeps_workers:
            with suppress(AttributeError):  # it is Ray's own, and another version may lack it
                cache = controller._actor_cache
                cache.increase_max(trial.placement_group_factory, by=_MOST_WORKERS)
            self._keeps_workers = True

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """As Ray does; it asks several times a second, also while no trial reports."""
        try:
            self._enforce_limits(tune_controller.get_live_trials())
        except Exception as error:
            self.hooks.broken = error
        return super().choose_trial_to_run(tune_controller)

    def _enforce_limits(self, trials: Iterable[Trial]) -> None:
        running = {trial.trial_id: trial for trial in trials if trial.status == Trial.RUNNING}
        self._limits.follow(running.keys() - self._killed.keys())
        for name, why in self._limits.broken().items():
            self._killed[name] = why
            ray.kill(running[name].temporary_state.ray_actor)  # even where no Python runs
        stalled = self._limits.stalled() | (self._killed.keys() & running.keys())
        self.hooks.results.state.stalled = {self.hooks.keys[name] for name in stalled}

    def on_trial_result(self, controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        self._limits.hear(trial.trial_id)
        if told := _below(FAILURE, result):
            self._told[trial.trial_id] = told
        if WAITS in result:
            self.hooks.results.waits(self.hooks.keys[trial.trial_id], result[WAITS])
        if "step" not in result:
            return str(TrialScheduler.CONTINUE)
        try:
            stop = self.hooks.results.point(
                self.hooks.keys[trial.trial_id],
                step=result["step"],
                metrics=_metrics(result),
                checkpoint=_checkpoint(trial, result),
                provenance={n: str(v) for n, v in _below("provenance", result).items()},
            )
        except Exception as error:
            self.hooks.broken, stop = error, True
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)

    def on_trial_remove(self, controller: Any, trial: Trial) -> None:
        """A trial is stopped before Ray has started it."""
        self._guarded(self.hooks.results.ended, trial)

    def on_trial_complete(self, controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        if self.hooks.broken is None:
            self._guarded(self.hooks.results.ended, trial)

    def on_trial_error(self, controller: Any, trial: Trial) -> None:
        # Ray pickles the error into the sweep's storage. At the end it would read that again.
        trial.run_metadata.pickled_error_filename = None
        failed = self.hooks.results.failed
        self._guarded(lambda key: failed(key, self._failure(trial)), trial)

    def _failure(self, trial: Trial) -> Failure:
        if why := self._killed.pop(trial.trial_id, None):
            return Failure(why, traceback=why, end="limit")
        if told := self._told.pop(trial.trial_id, None):
            return reported(told, self.hooks.results.state.method)
        text = ""
        with suppress(OSError, TypeError):  # on a full disk there is none
            text = Path(trial.error_file).read_text(errors="replace")
        return unreported(text)

    def _guarded(self, call: Callable[[str], None], trial: Trial) -> None:
        try:
            call(self.hooks.keys[trial.trial_id])
        except Exception as error:
            self.hooks.broken = error


def _metrics(result: dict[str, Any]) -> dict[str, float]:
    ours = ("dev/", "train/", "perf/")
    return {name: float(value) for name, value in result.items() if name.startswith(ours)}


def _below(name: str, result: dict[str, Any]) -> dict[str, Any]:
    """A mapping inside a result, which Ray flattens."""
    start = f"{name}/"
    return {key[len(start) :]: value for key, value in result.items() if key.startswith(start)}


def _checkpoint(trial: Trial, result: dict[str, Any]) -> str | None:
    """The place of this result's checkpoint, which the worker writes before it reports."""
    name = result.get("checkpoint_dir_name")
    return f"{trial.path}/{name}" if name else None
