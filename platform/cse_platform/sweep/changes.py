"""What may change in a sweep file between two starts of one sweep, and what may not."""

from typing import Any

from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.problems import shown
from cse_platform.sweep.spec import SweepSpec

KEPT = ("method", "backbone", "corpus", "dev", "fixed", "space")
"""What a sweep's trials follow from; with the search's sampler and seed it makes the sweep."""

GROWING = ("search", "seeds", "evaluate", "tags")
"""What may ask for more than a complete sweep has done, or be told of."""


def refuse_changes(stored: dict[str, Any] | None, spec: SweepSpec) -> None:
    """Make sure that `spec` continues or extends the sweep that is stored under its name.

    Raises:
        SweepRefusedError: names the first difference, and the way out.
    """
    if stored is None:
        return
    now = spec.model_dump(mode="json")
    pairs = [(name, stored[name], now[name]) for name in KEPT]
    for name in ("sampler", "seed"):
        pairs.append((f"search.{name}", stored["search"][name], now["search"][name]))
    pairs.append(("seeds.search", stored["seeds"]["search"], now["seeds"]["search"]))
    for name, before, after in pairs:
        if difference := _first_difference(name, before, after):
            path, old, new = difference
            raise SweepRefusedError(
                f"sweep {spec.sweep!r} was started with {path} = {shown(old)}, and now it is "
                f"{shown(new)}; run it as another sweep: --set sweep=NEWNAME"
            )


def asks_for_no_more(stored: dict[str, Any] | None, spec: SweepSpec) -> bool:
    """Whether a complete sweep has nothing to add: the same budget, seeds and test sets."""
    now = spec.model_dump(mode="json")
    return stored is not None and all(
        (stored.get(name) or None) == (now[name] or None) for name in GROWING
    )


def _first_difference(path: str, before: Any, after: Any) -> tuple[str, Any, Any] | None:
    if before == after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(name for name in after if name not in before)):
            found = _first_difference(f"{path}.{name}", before.get(name), after.get(name))
            if found:
                return found
    return path, before, after
