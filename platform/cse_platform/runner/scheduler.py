"""Ray Tune's scheduler: it places trials, and hears of their reports and ends before any other.

An exception in it is kept, as `cse_platform.runner.hooks` says.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from cse_methods.contract import checked_report
from cse_platform.runner.failures import Failure, is_report_of_failure, reported, unreported
from cse_platform.runner.nodes.placing import InItsEnvironment, OnCheckedNodes
from cse_platform.runner.nodes.slots import node_of
from cse_platform.runner.nodes.turns import IdleWorkers
from cse_platform.runner.planning.bad_nodes import BadNodes
from cse_platform.runner.planning.limits import TrialLimits
from cse_platform.runner.processes.worker import KEPT_MODEL, WAITS
from cse_platform.runner.processes.worker_process import FAILURE

if TYPE_CHECKING:
    from cse_platform.runner.hooks import Hooks


class ReportingScheduler(FIFOScheduler):  # type: ignore[misc]  # Ray is untyped
    """Receives every report of every trial; Ray calls it before any other code of the driver."""

    def __init__(self, hooks: "Hooks") -> None:
        super().__init__()
        self.hooks = hooks
        self._told: dict[str, dict[str, Any]] = {}
        """By Ray's trial id, what its worker has told of its failure."""
        self._killed: dict[str, str] = {}
        """By Ray's trial id, why its process was killed."""
        self._limits = TrialLimits(hooks.results.state.spec.resources)
        self._bad_nodes = BadNodes()

    def on_trial_add(self, controller: Any, trial: Trial) -> None:
        """On a cluster, the trial is placed where nodes have passed their checks."""
        hooks = self.hooks
        if hooks.controller is None:
            hooks.controller = controller._tune_controller  # what Ray passes only reads it
            hooks.controller._actor_cache = IdleWorkers(hooks.yields)
        if (nodes := hooks.planner.state.nodes) is not None:
            place = OnCheckedNodes(trial.placement_group_factory, nodes, hooks.yields)
            trial.update_resources(place)
            manager = hooks.controller._actor_manager._resource_manager
            manager._resource_cls = InItsEnvironment

    def begins(self, trial: Trial) -> None:
        """A trial has a process, on a node."""
        actor = trial.temporary_state.ray_actor
        if self.hooks.results.state.nodes is not None:
            self._guarded(lambda key: self._bad_nodes.begins(key, node_of(actor)), trial)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """A trial without a slot; Ray asks several times a second, also while no trial reports.

        Not one whose process is starting: Ray would give it an idle process, and end its own.
        """
        try:
            self._enforce_limits(tune_controller.get_live_trials())
        except Exception as error:
            self.hooks.broken = error
        return next(iter(self.hooks.waiting()), None)

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
        try:
            stop = self._hear(trial, result)
        except Exception as error:
            self.hooks.broken, stop = error, True
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)

    def _hear(self, trial: Trial, result: dict[str, Any]) -> bool:
        """Take what a worker has sent, which a method can have made up; True ends the trial."""
        key, results = self.hooks.keys[trial.trial_id], self.hooks.results
        if is_report_of_failure(told := _below(FAILURE, result)):
            self._told[trial.trial_id] = told
        if WAITS in result:
            results.waits(key, str(result[WAITS]))
        if KEPT_MODEL in result:
            problem = result[KEPT_MODEL]
            results.model_kept(key, problem=None if problem is None else str(problem))
        if "step" not in result:
            return False
        try:
            step, metrics = checked_report(result["step"], result)
        except ValueError as error:
            results.refuse(key, str(error))
            return True
        if step > 0:
            self._bad_nodes.does_well(key)
        return results.point(
            key,
            step=step,
            metrics=metrics,
            checkpoint=_checkpoint(trial, result, results.checkpoints),
            provenance={n: str(v) for n, v in _below("provenance", result).items()},
        )

    def on_trial_remove(self, controller: Any, trial: Trial) -> None:
        """A trial is stopped before Ray has started it."""
        self._guarded(self.hooks.results.ended, trial)

    def on_trial_complete(self, controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        if self.hooks.broken is None:
            self._guarded(self.hooks.results.ended, trial)

    def on_trial_error(self, controller: Any, trial: Trial) -> None:
        # Ray pickles the error into the sweep's storage. At the end it would read that again.
        trial.run_metadata.pickled_error_filename = None
        self._guarded(lambda key: self._fails(key, self._failure(trial)), trial)

    def _fails(self, key: str, failure: Failure) -> None:
        """Take the end of a trial; a node that keeps failing trials is avoided."""
        self.hooks.results.failed(key, failure)
        state = self.hooks.results.state
        if state.nodes is None or (bad := self._bad_nodes.fails(key)) is None:
            return
        node, keys = bad
        why = f"the last {len(keys)} trials failed there and others do well elsewhere"
        if state.nodes.avoid(node, f"{why} ({failure.said})"):
            failed = [state.history.trials[one] for one in keys]
            state.to_retry += [trial for trial in failed if trial.state == "FAIL"]

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


def _below(name: str, result: dict[str, Any]) -> dict[str, Any]:
    """A mapping inside a result, which Ray flattens."""
    start = f"{name}/"
    return {
        name[len(start) :]: value
        for name, value in result.items()
        if isinstance(name, str) and name.startswith(start)
    }


def _checkpoint(trial: Trial, result: dict[str, Any], place: str) -> str | None:
    """The place of this result's checkpoint, which the worker writes before it reports.

    Below that of all checkpoints, because Ray's own path of a trial lacks the store that it is in.
    """
    name = result.get("checkpoint_dir_name")
    return f"{place}/{trial.storage.trial_dir_name}/{name}" if name else None
