"""Times in a sweep file: `90s`, `20min`, `2h`, `1d`, or a number of seconds."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cse_platform.sweep.reading.problems import format_value

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(rf"(?P<count>\d+(\.\d+)?) ?(?P<unit>{'|'.join(_UNITS)})")


def _seconds(value: Any) -> Any:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        return float(found["count"]) * _UNITS[found["unit"]]
    if isinstance(value, str | bool):
        got = format_value(value)
        raise ValueError(f"expected a time such as 90s, 20min, 2h or 1d, got {got}")
    return value


Duration = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
"""Seconds; a file writes `90s`, `20min`, `2h` or `1d`."""


def format_duration(seconds: float) -> str:
    """As a file writes it, in the largest unit that needs at most one decimal: `8h`, `1.5h`."""
    fitting = [unit for unit, size in _UNITS.items() if round(seconds / size, 1) * size == seconds]
    unit = fitting[-1] if fitting else "s"
    return f"{seconds / _UNITS[unit]:g}{unit}"
