"""Estimates how long further trials take, and how many fit a budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cse_platform.sweep.blocks import Budget

GUESSED_SPREAD = 1 / 3
"""Prior standard deviation of durations relative to their mean; observed durations override it."""
RAY_SECONDS = (4.0, 40.0)
"""Shortest and longest start of Ray in seconds: on an idle machine, and on a busy one."""
A_PROJECTION = 0.5
"""Number of observations that running trials count as, if none has finished."""

_UNITS = (("h", 3600, 1), ("min", 60, 0), ("s", 1, 0))
"""Name, seconds, decimals; the first unit is used of which the upper end is at least two."""

TimeInterval = tuple[float, float]
"""Shortest and longest time, in seconds."""


def time_left(
    durations: Sequence[float], *, trials: float, at_once: int, finished: bool = True
) -> TimeInterval:
    """Estimate an interval for the time of further trials; it narrows with every duration.

    Args:
        durations: seconds of trials, one or more, each above 0.
        trials: number of trials still to run, with fractions for running ones; above 0.
        at_once: number of trials that run at the same time.
        finished: False if `durations` are projected from running trials.

    Returns:
        About the 95 % interval of a sum of log-normal durations whose mean is estimated too.
    """
    observed = len(durations) if finished else A_PROJECTION
    mean = math.fsum(durations) / len(durations)
    deviations = math.fsum((seconds / mean - 1) ** 2 for seconds in durations) if finished else 0.0
    spread = math.sqrt((GUESSED_SPREAD**2 + deviations) / observed)
    factor = math.exp(2 * spread * math.sqrt(1 / trials + 1 / observed))
    middle = mean * trials / at_once
    return middle / factor, middle * factor


def with_ray(interval: TimeInterval) -> TimeInterval:
    """Add the time that Ray takes to start."""
    return interval[0] + RAY_SECONDS[0], interval[1] + RAY_SECONDS[1]


def span(interval: TimeInterval) -> str:
    """Format an interval of time, e.g. `3 to 9 min` or `about 2.5 h`."""
    low, high = interval
    name, unit, decimals = next((u for u in _UNITS if high >= 2 * u[1]), _UNITS[-1])
    shortest, longest = (f"{end / unit:.{decimals}f}" for end in (low, high))
    if float(shortest) == 0:
        return f"up to {longest} {name}"
    if shortest == longest:
        return f"about {longest} {name}"
    return f"{shortest} to {longest} {name}"


@dataclass(frozen=True)
class Pace:
    """How fast a sweep runs trials and spends its budget."""

    seconds: float
    """Seconds per trial."""
    at_once: int
    """Number of trials that run at the same time."""
    gpu: float
    """A trial's share of a GPU."""

    def trials_within(
        self,
        budget: Budget | None,
        *,
        count: int | None,
        seconds: float = 0.0,
        gpu_seconds: float = 0.0,
    ) -> float | None:
        """Estimate how many trials start before a budget is spent; None if nothing limits them.

        `count` is another limit; `seconds` and `gpu_seconds` are already spent.
        """
        room = [] if count is None else [float(count)]
        if budget is not None and budget.time is not None:
            room.append((budget.time - seconds) * self.at_once / self.seconds)
        if budget is not None and budget.gpu_hours is not None and self.gpu:
            room.append((3600 * budget.gpu_hours - gpu_seconds) / (self.seconds * self.gpu))
        return max(min(room), 0.0) if room else None
