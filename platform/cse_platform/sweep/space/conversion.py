"""Configurations from elsewhere, as a search space has them."""

from collections.abc import Mapping
from typing import Any

from cse_platform.sweep.reading.problems import format_value
from cse_platform.sweep.space.space import Space


def converted(
    space: Space, values: Mapping[str, Any], *, whose: str
) -> tuple[dict[str, Any], list[str]]:
    """The values of dimensions that lie nearest to these, and what had to be changed, for people.

    What is inactive beside the other values is left out, and what has no near value too: the
    sampler draws that. `whose` says where the values are from.
    """
    found: dict[str, Any] = {}
    notes = []
    for name in space.ordered():
        if name not in values or space.is_excluded(name, found):
            continue
        dimension, value = space[name], values[name]
        try:
            found[name] = dimension.nearest(value)
        except LookupError:
            instead = "the sampler draws it"
        else:
            instead = f"{format_value(found[name])} is tried instead"
        if name not in found or not dimension.has(value):
            notes.append(
                f"{whose}: {name}={format_value(value)} is not in space.{name}, which is "
                f"{dimension}; {instead}"
            )
    return found, notes
