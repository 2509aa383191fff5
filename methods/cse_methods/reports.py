"""The numbers of a report: which of them are recorded, and how they become plain floats."""

import operator
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from numbers import Complex, Real

METRIC_GROUPS = ("dev", "train", "perf")
"""What comes before the slash in the names of the metrics that are recorded."""
LAST_STEP = 2**31 - 1
"""The highest step that every store can hold."""


def check_report(step: object, metrics: object) -> tuple[int, dict[str, float]]:
    """Convert the step and the metrics of a report to plain numbers.

    A metric is a real number of any type, NaN included, such as a scalar of NumPy or a tensor
    without dimensions. Metrics outside `METRIC_GROUPS` are left out.

    Raises:
        ValueError: names the step or the metric that is none, and its value.
    """
    count: int | None = None
    with suppress(Exception):  # whatever the conversions of somebody's own type raise
        count = operator.index(step)  # type: ignore[arg-type]
    if count is None and (number := real_number(step)) is not None and number.is_integer():
        count = int(number)
    if count is None or not 0 <= count <= LAST_STEP:
        raise ValueError(
            f"a report has step {_format_value(step)}; a step is a whole number of optimiser "
            f"steps, from 0 to {LAST_STEP}"
        )
    if not isinstance(metrics, Mapping):
        raise ValueError(
            f"the report of step {count} has {_format_value(metrics)} as metrics; expected a "
            "mapping of names to numbers"
        )
    checked = {}
    for name, value in metrics.items():
        if isinstance(name, str) and not is_recorded(name):
            continue
        if not isinstance(name, str) or not name.isprintable():
            raise ValueError(
                f"the report of step {count} has a metric named {_format_value(name)}; a name must "
                "be printable text"
            )
        number = real_number(value)
        if number is None:
            raise ValueError(
                f"the report of step {count} has {name} = {_format_value(value)}; a metric must be "
                "a real number, such as a float"
            )
        checked[name] = number
    return count, checked


def _format_value(value: object) -> str:
    """Format a value for a message: cut if it is long, even if its type cannot format it."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to write an integer of so many digits
        return f"a {type(value).__name__} that cannot be shown"


def is_recorded(metric: str) -> bool:
    """Whether the name of a metric is of one of `METRIC_GROUPS`."""
    return metric.partition("/")[0] in METRIC_GROUPS


def real_number(value: object) -> float | None:
    """Convert a real number to a float; None if it is no number, or too large for a float."""
    if isinstance(value, str | bytes | bytearray):
        return None  # `float` would read it
    if isinstance(value, Complex) and not isinstance(value, Real):
        return None  # NumPy would drop its imaginary part
    with suppress(Exception):  # whatever the conversions of somebody's own type raise
        return float(value)  # type: ignore[arg-type]
    return None
