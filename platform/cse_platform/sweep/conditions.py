"""Conditions on values by name: `rank_loss in [listnet, listmle] and tau2 > 0.01`.

This is the one grammar of `when` and of filters of trials. Conditions are joined by `and`; each is
`NAME = VALUE`, `NAME in [VALUE, VALUE]`, or a number after `<`, `<=`, `>` or `>=`. A value is JSON,
or a word without quotes. Here they are evaluated for a Python value; `leaderboard/trials_table.py`
makes SQL of them.
"""

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cse_platform.sweep.problems import format_value
from cse_platform.values import canonical_json, is_number

EXAMPLE = "learning_rate >= 1e-4 and kind in [a, b]"
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
}
"""The comparisons with a number, for Python values and for SQL."""
_WORD = re.compile(r'[^\s<>=,"\[\]{}]+')
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_SIGN = re.compile(r"(<=|>=|==|=|<|>|in\b)\s*")
_COMPARISON = re.compile(rf"\s*(<=|>=|<|>)\s*({_NUMBER.pattern})\s*")
_WORDS = {"true": True, "false": False, "null": None}
_LARGEST = 2**63
"""Databases hold whole numbers below this; larger ones are compared as real numbers."""
LONGEST, MOST_CONDITIONS, MOST_VALUES, DEEPEST = 10_000, 50, 500, 10
"""The most characters, conditions and values of a text, and levels of a value in it.

A text can come in anybody's link, and a database compares each trial with each value.
"""


@dataclass(frozen=True)
class Condition:
    """The values that something by this name may have."""

    name: str
    sign: str
    """One of `SIGNS`, or `=`."""
    values: tuple[Any, ...]
    """The allowed values; of a comparison, its bound alone."""

    def allows(self, value: Any) -> bool:
        """Whether a value satisfies the condition; only a number satisfies a comparison."""
        if self.sign in SIGNS:
            return is_number(value) and bool(SIGNS[self.sign](value, self.values[0]))
        return canonical_json(value) in map(canonical_json, self.values)

    def __str__(self) -> str:
        values = [write_value(value) for value in self.values]
        listed = values[0] if len(values) == 1 else f"[{', '.join(values)}]"
        return f"{write_value(self.name)} {self.sign if len(values) == 1 else 'in'} {listed}"


def format_conditions(conditions: Iterable[Condition]) -> str:
    """Write conditions so that `parse_conditions` reads the same ones."""
    return " and ".join(map(str, conditions))


def write_value(value: Any) -> str:
    """Write a value as in a condition: JSON, or a text as it is where that reads as itself."""
    with suppress(ValueError):  # a number that is too large needs quotes, to be a text
        if isinstance(value, str) and _WORD.fullmatch(value) and _read_word(value) == value:
            return value
    return canonical_json(value)


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Read conditions; an empty text has none.

    Raises:
        ValueError: says which part is not a condition, and how to write one.
    """
    conditions, unread = dict[str, Condition](), text.strip()
    if len(unread) > LONGEST:
        raise ValueError(
            f"{format_value(unread)} is not a condition: together conditions have at most "
            f"{LONGEST} characters, got {len(unread)}"
        )
    while unread:
        try:
            condition, remainder = _read_condition(unread)
        except (ValueError, RecursionError):
            raise ValueError(
                f"{format_value(unread)} is not a condition; write NAME = VALUE, NAME in [VALUE, "
                f"VALUE] or NAME >= NUMBER, and 'and' before the next one, e.g. {EXAMPLE}"
            ) from None
        conditions.setdefault(str(condition), condition)
        count = sum(len(each.values) for each in conditions.values())
        if len(conditions) > MOST_CONDITIONS or count > MOST_VALUES:
            raise ValueError(
                f"at most {MOST_CONDITIONS} conditions have together at most {MOST_VALUES} values; "
                "a range, NAME >= NUMBER and NAME <= NUMBER, needs no values"
            )
        joined = re.match(r"\s+and\s+(?=\S)", remainder)
        if remainder and not joined:
            raise ValueError(
                f"expected 'and' before {format_value(remainder.strip())}, e.g. {EXAMPLE}"
            )
        unread = remainder[joined.end() :] if joined else ""
    return tuple(conditions.values())


def read_when(value: Any) -> Any:
    """Read the conditions of a dimension: a text, or a mapping of names to their allowed values.

    In a mapping, a value is a list of alternatives or one alone; `> 0` is a comparison, and of
    several comparisons each must hold.
    """
    if isinstance(value, str):
        value = dump_when(parse_conditions(value))
        if unmet := [name for name, allowed in value.items() if not allowed]:
            raise ValueError(f"no value of {unmet[0]} meets all its conditions")
    if isinstance(value, tuple):  # conditions, as read before
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"expected conditions, as in {EXAMPLE}, or a mapping, got {value!r}")
    conditions = list[Condition]()
    for name, allowed in value.items():
        values = tuple(allowed) if isinstance(allowed, (list, tuple)) else (allowed,)
        compared = [m for v in values if isinstance(v, str) and (m := _COMPARISON.fullmatch(v))]
        finite = all(math.isfinite(float(match[2])) for match in compared)
        if not (values and finite and len(compared) in (0, len(values))):
            raise ValueError(f"{name}: expected values, or comparisons alone, got {allowed!r}")
        conditions += [Condition(name, m[1], (_read_word(m[2]),)) for m in compared] or [
            Condition(name, "=", values)
        ]
    return tuple(conditions)


def dump_when(conditions: Sequence[Condition]) -> dict[str, list[Any]]:
    """Write the conditions of a dimension as a mapping that `read_when` reads."""
    mapping: dict[str, list[Any]] = {}
    for name in dict.fromkeys(condition.name for condition in conditions):
        own = [condition for condition in conditions if condition.name == name]
        listed = next((condition.values for condition in own if condition.sign == "="), None)
        mapping[name] = (
            [f"{condition.sign} {write_value(condition.values[0])}" for condition in own]
            if listed is None
            else [value for value in listed if all(other.allows(value) for other in own)]
        )
    return mapping


def _read_condition(text: str) -> tuple[Condition, str]:
    """Read the first condition of a text. Returns it, and what comes after it."""
    name, unread = _read_value(text)
    sign = _SIGN.match(unread.lstrip())
    if sign is None:
        raise ValueError(text)
    name, unread = name if isinstance(name, str) else text[: -len(unread)].strip(), unread.lstrip()
    unread = unread[sign.end() :]
    if sign[1] == "in":
        values, unread = _read_list(unread)
    else:
        value, unread = _read_value(unread)
        values = (value,)
    compared = sign[1] in SIGNS
    if not values or (compared and not is_number(values[0])):
        raise ValueError(text)
    return Condition(name, sign[1] if compared else "=", values), unread


def _read_list(text: str) -> tuple[tuple[Any, ...], str]:
    """Read `[VALUE, VALUE]`. Returns the values, and what comes after them."""
    values, mark = list[Any](), text[:1]
    if mark != "[":
        raise ValueError(text)
    while mark != "]":
        value, text = _read_value(text[1:].lstrip())
        values.append(value)
        text = text.lstrip()
        mark = text[:1]
        if mark not in ("]", ","):
            raise ValueError(text)
    return tuple(values), text[1:]


def _read_value(text: str) -> tuple[Any, str]:
    """Read the first value of a text. Returns it, and what comes after it."""
    if text[:1] in ('"', "[", "{"):
        value, end = json.JSONDecoder(parse_constant=float.fromhex).raw_decode(text)
        # What is not finite, or no text for a database, is refused.
        written = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        if b"\\u0000" in written or _measure_depth(value) > DEEPEST:
            raise ValueError(text)
        return value, text[end:]
    word = _WORD.match(text)
    if word is None:
        raise ValueError(text)
    return _read_word(word[0]), text[word.end() :]


def _measure_depth(value: Any) -> int:
    """Count the levels of lists and mappings in a value."""
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_measure_depth, inner), default=0) if isinstance(value, dict | list) else 0


def _read_word(word: str) -> Any:
    """Read a number, true, false or null; any other word is a text."""
    if not _NUMBER.fullmatch(word):
        return _WORDS.get(word, word)
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(word)
    return int(word) if word.lstrip("+-").isdecimal() and abs(number) < _LARGEST else number
