"""Values nested in mappings and lists, as JSON and YAML have them."""

from collections.abc import Callable, Iterator
from typing import Any


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
