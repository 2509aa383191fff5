"""Decides when a budget ends a search, and how many trials the search still has room for."""

from collections.abc import Iterator
from datetime import datetime

from cse_platform.forecast.time_left import Pace
from cse_platform.leaderboard.statistics.searches import expected_improvement
from cse_platform.runner.state import SweepState
from cse_platform.sweep.blocks import format_duration
from cse_platform.sweep.objectives import is_feasible
from cse_platform.tracking.events import now as this_moment


def spent_budget(state: SweepState, *, now: datetime | None = None) -> str | None:
    """Describe the budget that ends the search now; None while the search goes on."""
    budget, now = state.spec.search.budget, now or this_moment()
    if budget is None:
        return None
    if budget.time is not None and state.history.effort.seconds(now) >= budget.time:
        return f"{format_duration(budget.time)} of trials"
    if budget.gpu_hours is not None and gpu_seconds(state, now) >= 3600 * budget.gpu_hours:
        return f"{budget.gpu_hours:g} GPU-hours"
    if budget.improvement is not None:
        gain = expected_improvement(list(_iter_search_values(state)))
        if gain is not None and gain < budget.improvement:
            least = f"{100 * budget.improvement:g}"
            return f"improvement: another trial adds {100 * gain:.2g} points, fewer than {least}"
    return None


def gpu_seconds(state: SweepState, now: datetime) -> float:
    """GPU-seconds that the search has taken, including those of trials that still run."""
    running = [trial for trial in state.history.unfinished() if trial.role != "confirm"]
    busy = sum(trial.busy_until(now) for trial in running)
    return state.history.effort.gpu_seconds + state.slot.gpu * busy


def trials_left(state: SweepState, *, seconds: float, at_once: int) -> float | None:
    """Estimate how many more trials the search begins if each takes `seconds`; None if unknown.

    It is unknown where improvement ends the search.
    """
    count = None if state.budget is None else state.budget - state.history.searched
    pace = Pace(seconds, at_once=at_once, gpu=state.slot.gpu)
    now = this_moment()
    return pace.trials_within(
        state.spec.search.budget,
        count=count,
        seconds=state.history.effort.seconds(now),
        gpu_seconds=gpu_seconds(state, now),
    )


def _iter_search_values(state: SweepState) -> Iterator[float]:
    for trial in state.history.trials.values():
        ended = trial.state in ("COMPLETE", "PRUNED")
        feasible = ended and is_feasible(state.spec.search.constraints, [trial])
        if feasible and trial.role != "confirm" and trial.best_value is not None:
            yield trial.best_value
