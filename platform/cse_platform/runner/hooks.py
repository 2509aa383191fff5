"""Ray Tune's searcher and scheduler. They pass every decision on to the planner and the results.

An exception in either would end the whole sweep. So it is caught and kept, no further trial is
started, and the launcher raises it when the running trials have ended.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from ray import cloudpickle
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from cse_platform.errors import WorkerLostError
from cse_platform.runner.failures import is_crash, with_own_line
from cse_platform.runner.planner import Planner
from cse_platform.runner.results import Results
from cse_platform.secrets import mask_text

_FAILURE = re.compile(r"^Failure # \d+ \(occurred at .*\)$", re.M)
"""The line between the errors of one trial in Ray's file of their texts."""
_MOST_WORKERS = 100_000
"""More than any cluster runs at once."""


class Hooks:
    """The searcher and the scheduler of one sweep, and the trials that both work on."""

    def __init__(self, planner: Planner, results: Results) -> None:
        self.planner, self.results = planner, results
        self.keys: dict[str, str] = {}
        """Ray's trial id -> our key."""
        self.broken: Exception | None = None
        self.searcher = PlannedSearcher(self)
        self.scheduler = ReportingScheduler(self)

    def __getstate__(self) -> dict[str, Any]:
        """Empty: Ray pickles its searcher for Ray's own restore, which no sweep uses."""
        return {}


class PlannedSearcher(Searcher):  # type: ignore[misc]  # Ray is untyped
    """Suggests the planner's next trial. It saves nothing: a sweep resumes from its journal."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__()
        self.hooks = hooks

    def set_search_properties(self, *arguments: Any, **keywords: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        hooks = self.hooks
        try:
            if hooks.broken is None and (trial := hooks.planner.next()):
                hooks.keys[trial_id] = trial.key
                return hooks.planner.param_space(trial)
        except Exception as error:
            hooks.broken = error
        done = hooks.planner.state.finished or hooks.broken is not None
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

    def on_trial_add(self, controller: Any, trial: Trial) -> None:
        """Let Ray keep every idle worker for the next trial; by itself it keeps a single one."""
        if not self._keeps_workers:
            with suppress(AttributeError):  # it is Ray's own, and another version may lack it
                cache = controller._actor_cache
                cache.increase_max(trial.placement_group_factory, by=_MOST_WORKERS)
            self._keeps_workers = True

    def on_trial_result(self, controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        if "step" not in result:
            return str(TrialScheduler.CONTINUE)
        try:
            stop = self.hooks.results.point(
                self.hooks.keys[trial.trial_id],
                step=result["step"],
                metrics=_metrics(result),
                checkpoint=_checkpoint(trial, result),
                provenance=_provenance(result),
            )
        except Exception as error:
            self.hooks.broken, stop = error, True
        return str(TrialScheduler.STOP if stop else TrialScheduler.CONTINUE)

    def on_trial_complete(self, controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        if self.hooks.broken is None:
            self._guarded(self.hooks.results.ended, trial)

    def on_trial_error(self, controller: Any, trial: Trial) -> None:
        self._guarded(lambda key: self._failed(key, _error(trial)), trial)

    def _failed(self, key: str, error: Exception) -> None:
        traceback = mask_text(re.sub(r"\x1b\[\d*m", "", str(error)))  # Ray colours it
        self.hooks.results.failed(
            key,
            error=with_own_line(error, traceback, self.hooks.results.state.method),
            crashed=is_crash(error),
            traceback=traceback,
        )

    def _guarded(self, call: Callable[[str], None], trial: Trial) -> None:
        try:
            call(self.hooks.keys[trial.trial_id])
        except Exception as error:
            self.hooks.broken = error


def _metrics(result: dict[str, Any]) -> dict[str, float]:
    ours = ("dev/", "train/", "perf/")
    return {name: float(value) for name, value in result.items() if name.startswith(ours)}


def _provenance(result: dict[str, Any]) -> dict[str, str]:
    start = "provenance/"
    return {name[len(start) :]: str(v) for name, v in result.items() if name.startswith(start)}


def _checkpoint(trial: Trial, result: dict[str, Any]) -> str | None:
    """The place of this result's checkpoint, which the worker writes before it reports."""
    name = result.get("checkpoint_dir_name")
    return f"{trial.path}/{name}" if name else None


def _error(trial: Trial) -> Exception:
    """What ended the trial, from the files that Ray writes before it calls the scheduler.

    Errors of the trial itself and of its process are pickled. Of all others, such as one for lack
    of memory, Ray keeps the text alone; and on a full disk it keeps nothing.
    """
    with suppress(OSError, EOFError, UnpicklingError, TypeError):
        with Path(trial.pickled_error_file).open("rb") as file:
            error: Exception = cloudpickle.load(file)
        return error
    with suppress(OSError, TypeError):
        said = Path(trial.error_file).read_text()
        return WorkerLostError(_FAILURE.split(said)[-1].strip() or "it left no error")
    return WorkerLostError("it left no error")
