"""Values as JSON and YAML have them: their leaves, when two are equal, how they are written; and
rows grouped by a value.
"""

import json
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeGuard, TypeVar

_Row = TypeVar("_Row")
_Key = TypeVar("_Key", bound=Hashable)


def iterate_leaves(
    value: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every value inside mappings and lists that is neither, with its path."""
    if isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from iterate_leaves(inner, (*path, key))
    else:
        yield path, value


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Copy a value with every value inside mappings and lists that is neither changed."""
    if isinstance(value, dict):
        return {key: map_leaves(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [map_leaves(inner, change) for inner in value]
    return change(value)


def canonical_json(value: Any) -> str:
    """Serialise a value so that equal values give equal texts; 1.0 equals 1, `true` does not."""

    def shorten(leaf: Any) -> Any:
        is_whole = isinstance(leaf, float) and leaf.is_integer() and abs(leaf) < 2**53
        return int(leaf) if is_whole else leaf

    value = map_leaves(value, shorten)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def encode(value: Any) -> Any:
    """Encode a value for Optuna: lists and mappings become JSON with sorted keys."""
    return json.dumps(value, sort_keys=True) if isinstance(value, (list, tuple, dict)) else value


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a finite number that a float can hold; `true` is none."""
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and abs(value) <= sys.float_info.max


def group_by(rows: Iterable[_Row], key: Callable[[_Row], _Key]) -> dict[_Key, list[_Row]]:
    """Group rows by key, in the order in which keys first appear."""
    groups: dict[_Key, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
