"""Ray Tune's searcher and scheduler. They pass every decision on to the planner and the results.

An exception in either would end the whole sweep. So it is caught and kept, no further trial is
started, and the launcher raises it when the running trials have ended.
"""

import signal
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher

from cse_platform.runner.nodes.demand import Demand
from cse_platform.runner.nodes.slots import free_slots
from cse_platform.runner.nodes.turns import Turns
from cse_platform.runner.planning.planner import Planner
from cse_platform.runner.planning.requests import Requests
from cse_platform.runner.processes.own_ray import check_own
from cse_platform.runner.results import Results
from cse_platform.runner.scheduler import ReportingScheduler


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
        nodes = planner.state.nodes
        self.demand = None if nodes is None else Demand(planner.state.slot, nodes)
        self.yields = Turns.of_this_driver().yields if nodes is not None else lambda: False
        """Whether another sweep on the cluster comes first."""
        self._yielded = False
        self.searcher = PlannedSearcher(self)
        self.scheduler = ReportingScheduler(self)
        self.listener = Listener(self)

    @property
    def is_interrupted(self) -> bool:
        """Whether Ray's loop has heard a Ctrl-C: it then puts the former handler back."""
        return signal.getsignal(signal.SIGINT) is not self.rays_handler

    def has_room(self) -> bool:
        """Whether one more trial has a free slot or an idle process.

        Where others use the cluster too, one trial waits for its turn. A Ray of our own is not
        asked: the planner knows its slots, and where its GCS has died, Ray waits for an answer for
        a minute and then ends this process.
        """
        state = self.planner.state
        if state.nodes is None:
            return True
        waiting = len(self.waiting())
        free = free_slots(state.slot, among=state.checked) if waiting else 1
        return waiting < max(1, free + self._idle_workers())

    def waiting(self) -> list[Trial]:
        """The trials that have no slot yet; others that are pending have one, and its process."""
        if self.controller is None:
            return []
        pending = [t for t in self.controller.get_live_trials() if t.status == Trial.PENDING]
        process, manager = self.controller._trial_to_actor, self.controller._actor_manager
        return [t for t in pending if not manager.is_actor_started(process.get(t))]

    def _idle_workers(self) -> int:
        if self.controller is None:
            return 0
        return int(self.controller._actor_cache.num_cached_objects)

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
        """Check the nodes that have joined, and ask again for the places of trials that wait."""
        nodes = self.planner.state.nodes
        if self.demand is not None:
            self.demand.follow(lambda: self.planner.could_begin() + len(self.waiting()))
        if nodes is None:
            return
        passed, yields = nodes.look(), self.yields()
        if not passed and yields == self._yielded:
            return  # as they were
        self._yielded = yields
        if self.controller is None:
            return
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

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        self.hooks.scheduler.begins(trial)


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
                kept = {"place": hooks.results.model_place(trial.key), "trial": trial.key}
                return hooks.planner.param_space(trial) | {"kept_model": kept}
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
