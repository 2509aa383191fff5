"""Estimates how long further trials take."""

import math
from collections.abc import Sequence

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
