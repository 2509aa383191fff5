"""Tell when the time or the GPU-hours of a search are used up, and how many trials that leaves."""

from datetime import datetime

from cse_platform.sweep.blocks import format_duration, trials_within
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking import events
from cse_platform.tracking.history import History


def spent_budget(spec: SweepSpec, history: History, *, now: datetime | None = None) -> str | None:
    """Describe the budget that is used up; None while the search goes on."""
    budget, now = spec.search.budget, now or events.now()
    if budget is None:
        return None
    if budget.time is not None and history.effort.seconds(now) >= budget.time:
        return f"{format_duration(budget.time)} of trials"
    if budget.gpu_hours is not None and gpu_seconds(spec, history, now) >= 3600 * budget.gpu_hours:
        return f"{budget.gpu_hours:g} GPU-hours"
    return None


def trial_budget(spec: SweepSpec, history: History) -> int | None:
    """Count the trials of a search, enqueued ones included; None while they are unlimited."""
    if history.search_limit is not None:
        return history.search_limit
    return None if spec.budget is None else spec.budget + len(history.enqueued)


def trials_to_begin(spec: SweepSpec, history: History) -> int | None:
    """Count the trials that the search still begins; None while they are unlimited.

    All enqueued ones begin, also where a smaller number of trials than before is asked for.
    """
    budget, waiting = trial_budget(spec, history), len(history.list_waiting())
    return None if budget is None else max(budget - history.searched, waiting)


def gpu_seconds(spec: SweepSpec, history: History, now: datetime) -> float:
    """Return the GPU-seconds that the search has used, running trials included."""
    running = [trial for trial in history.unfinished() if trial.role != "confirm"]
    busy = sum(trial.busy_until(now) for trial in running)
    return history.effort.gpu_seconds + spec.resources.gpu * busy


def trials_left(spec: SweepSpec, history: History, *, seconds: float, at_once: int) -> float | None:
    """Estimate how many more trials the search begins if each takes `seconds`; None if unknown."""
    now = events.now()
    return trials_within(
        spec.search.budget,
        each=seconds,
        at_once=at_once,
        gpu=spec.resources.gpu,
        count=trials_to_begin(spec, history),
        seconds=history.effort.seconds(now),
        gpu_seconds=gpu_seconds(spec, history, now),
    )
