"""Conditions that select trials of a sweep: `learning_rate:1e-4..3e-4,kind:a|b`.

A condition is a name and its allowed values: alternatives separated by `|`, or a range `LOW..HIGH`
that includes both ends, one of which may be omitted. A trial passes if all conditions hold. The
characters `,` `|` `:` `%` and `..` in a name or value are percent-encoded as in a URL: `%2C`.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote

from cse_platform.sweep.space.dimensions import canonical_json

EXAMPLE = "learning_rate:1e-4..3e-4,kind:a|b"
NONE = "none"
"""The value of a hyperparameter that is inactive in a trial."""

_SIGNS = re.compile(r"[%,|:]|\.\.")


@dataclass(frozen=True)
class Span:
    """A range of numbers, both ends included."""

    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        return f"{_format_bound(self.low)}..{_format_bound(self.high)}"


@dataclass(frozen=True)
class Condition:
    """The allowed values of one hyperparameter, or of one column of a trial."""

    name: str
    allowed: tuple[Span | str, ...]
    """Alternatives. A text also matches the number that it can be parsed as."""

    def __str__(self) -> str:
        values = (
            str(value) if isinstance(value, Span) else encode_signs(value) for value in self.allowed
        )
        return f"{encode_signs(self.name)}:{'|'.join(values)}"


@dataclass(frozen=True)
class Where:
    """Conditions that must all hold; without any, every trial passes."""

    conditions: tuple[Condition, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.conditions))

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def without(self, condition: Condition) -> Self:
        """Return the other conditions."""
        return type(self)(tuple(other for other in self.conditions if other != condition))


EVERY_TRIAL = Where()


def read_where(text: str) -> Where:
    """Parse conditions in the syntax of this module.

    Raises:
        ValueError: explains what is wrong, and how to write it.
    """
    parts = [part for part in text.split(",") if part.strip()]
    return Where(tuple(dict.fromkeys(map(_parse_condition, parts))))


def _parse_condition(text: str) -> Condition:
    name, colon, allowed = text.strip().partition(":")
    values = [value.strip() for value in allowed.split("|")]
    if not (colon and name.strip() and all(values)):
        raise ValueError(
            f"{text.strip()!r} is not a condition; write NAME:VALUE, NAME:VALUE|VALUE or "
            f"NAME:LOW..HIGH, with a comma before the next one, e.g. {EXAMPLE}"
        )
    return Condition(unquote(name.strip()), tuple(map(_parse_allowed_value, values)))


def _parse_allowed_value(text: str) -> Span | str:
    low, dots, high = text.partition("..")
    if not dots:
        return unquote(text)
    span = Span(_parse_bound(low, -math.inf, text), _parse_bound(high, math.inf, text))
    if not (low or high) or math.isnan(span.low + span.high):
        raise ValueError(_explain_bad_range(text))
    if span.low > span.high:
        raise ValueError(f"{text!r} holds no number; write the lower end first: {high}..{low}")
    return span


def _parse_bound(text: str, default: float, span: str) -> float:
    """Parse one end of a range; `default` if it is left out."""
    try:
        return float(text) if text.strip() else default
    except ValueError:
        raise ValueError(_explain_bad_range(span)) from None


def _explain_bad_range(text: str) -> str:
    return (
        f"{text!r} is not a range; write LOW..HIGH in numbers, e.g. 1e-4..3e-4, or %2E%2E for two "
        "dots in a value"
    )


def _format_bound(number: float) -> str:
    return f"{number!r}" if math.isfinite(number) else ""


def named_value(value: Any) -> str:
    """Format a hyperparameter's value for a condition: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else canonical_json(value)


def encode_signs(text: str) -> str:
    """Percent-encode the reserved characters in a name or a value."""
    return _SIGNS.sub(lambda match: "".join(f"%{ord(sign):02X}" for sign in match[0]), text)
