"""Numbers, times and settings as people read them. Scores are shown x 100."""

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from cse_methods.reports import LAST_STEP

HASH_DIGITS = 8
"""Number of digits that are shown of a hash or a trial's key."""
LEAST_P = 0.001
"""Lower p values are shown as `<0.001`."""


def read_count(text: str, *, least: int = 0) -> int | None:
    """Read a number that every store can hold, from `least` on; None for any other text."""
    if not (text.isdecimal() and len(text) <= len(str(LAST_STEP))):
        return None
    number = int(text)
    return number if least <= number <= LAST_STEP else None


def percent(fraction: float | None) -> str:
    """Format a fraction x 100, with two decimals; empty for None.

    Means of equal values that were added in different orders are shown alike.
    """
    return "" if fraction is None else f"{round(100 * fraction, 9):z.2f}"


def first_percents(fractions: Collection[float]) -> str:
    """Format the first two fractions x 100, and how many others there are: `71.20, 70.10, 3 more`.

    Empty without any.
    """
    first = [percent(fraction) for fraction in islice(fractions, 2)]
    others = len(fractions) - len(first)
    return ", ".join([*first, *[f"{others} more"] * bool(others)])


def signed_percent(fraction: float) -> str:
    """Format a difference x 100, with its sign; one that is shown as zero has none."""
    return f"{round(100 * fraction, 9):+z.2f}".replace("+0.00", "0.00")


def probability(p: float | None) -> str:
    """Format a p value with three decimals, or as `<0.001`; empty for None."""
    if p is None:
        return ""
    return f"<{LEAST_P}" if p < LEAST_P else f"{p:.3f}"


def short_value(value: Any) -> str:
    """Format a setting's value; floats have three significant digits, and None is `null`."""
    return f"{value:.3g}" if isinstance(value, float) else "null" if value is None else str(value)


def short_settings(values: Mapping[str, Any]) -> str:
    """Format settings on one line, e.g. `learning_rate=3e-05 pooler=cls`."""
    return " ".join(f"{name}={short_value(value)}" for name, value in values.items())


def format_count(number: int, noun: str) -> str:
    """Format a number of things, e.g. `1 trial` or `2 trials`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def format_size(size: int) -> str:
    """Format a number of bytes with a unit."""
    for unit, bytes_ in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size} bytes"


def clock(seconds: float | None) -> str:
    """Format a duration: `2 h 05 min`, `3 min 20 s`, `12 s`; from two days on as days and hours."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, left_over = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} days {hours % 24} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left_over:02} s"


def stopwatch(seconds: float) -> str:
    """Format a running duration: `2:05:20` or `3:20`."""
    minutes, left_over = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left_over:02}" if hours else f"{minutes}:{left_over:02}"


def utc(time: datetime) -> str:
    """Format a time to the second, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")
