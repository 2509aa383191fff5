"""What may change in a sweep file between two starts of one sweep, and what may not."""

from collections.abc import Mapping
from typing import Any

from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.problems import shown
from cse_platform.sweep.spec import SweepSpec

KEPT = (
    *("method", "backbone", "corpus", "dev", "fixed", "space"),
    *("search.sampler", "search.seed", "seeds.search"),
)
"""What a sweep's trials follow from: with its name, these are its identity."""

GROWING = ("search", "seeds", "evaluate", "tags")
"""What may ask for more than a complete sweep has done, or be told of."""


def refuse_changes(stored: dict[str, Any] | None, spec: SweepSpec) -> None:
    """Make sure that `spec` continues or extends the sweep that is stored under its name.

    Raises:
        SweepRefusedError: names the first difference, and the way out.
    """
    if stored is None:
        return
    if difference := first_change(stored, spec.model_dump(mode="json")):
        path, old, new = difference
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} was started with {path} = {shown(old)}, and now it is "
            f"{shown(new)}; run it as another sweep: --set sweep=NEWNAME"
        )


def first_change(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """Where two specs, as JSON, are not of one sweep: path, old and new value; None if they are."""
    for name in KEPT:
        if difference := _first_difference(name, _at(before, name), _at(after, name)):
            return difference
    return None


def asks_for_no_more(stored: dict[str, Any] | None, spec: SweepSpec) -> bool:
    """Whether a complete sweep has nothing to add: the same budget, seeds and test sets."""
    now = spec.model_dump(mode="json")
    return stored is not None and all(
        (stored.get(name) or None) == (now[name] or None) for name in GROWING
    )


def _at(spec: Mapping[str, Any], path: str) -> Any:
    value: Any = spec
    for step in path.split("."):
        value = (value or {}).get(step)
    return value


def _first_difference(path: str, before: Any, after: Any) -> tuple[str, Any, Any] | None:
    if before == after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(name for name in after if name not in before)):
            found = _first_difference(f"{path}.{name}", before.get(name), after.get(name))
            if found:
                return found
    return path, before, after
