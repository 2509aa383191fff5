"""Tells which changes of a sweep file between two starts continue the same sweep."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cse_methods.files.named import is_file_name
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.problems import format_value

IDENTITY_KEYS = (
    *("method", "backbone", "corpus", "dev", "fixed", "space", "require"),
    *("search.sampler", "search.seed", "search.objectives", "search.constraints"),
    "seeds.search",
)
"""Keys that every trial depends on: with the name, they are the identity of a sweep."""

READ_BY_CONTENT = ("corpus", "dev")
"""Keys that name data files: these may move, and what they hold is compared by hash."""

GROWING = ("search", "seeds", "evaluate", "tags", "keep")
"""Keys that may change between two starts, and then give a complete sweep more to do."""

Change = tuple[str, Any, Any]
"""Path, value before and value after."""


def refuse_changes(stored: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> None:
    """Raise SweepRefusedError unless the sweep continues or extends the stored one of its name.

    `stored` is the spec at its last start, as JSON, None for a new sweep; `asked` is the spec now.
    The message names the first change, and the way out.
    """
    if stored is None:
        return
    if change := next(changes(stored, asked), None):
        path, old, new = change
        raise SweepRefusedError(
            f"sweep {asked['sweep']!r} was started with {path} = {format_value(old)}, and now "
            f"it is {format_value(new)}; run it as another sweep: --set sweep=NEWNAME"
        )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Yield each difference by which two specs, as JSON, are not of one sweep.

    A key that one lacks and the other has as null or empty is no change: an older version did not
    write the key, and a newer one writes its default.
    """
    for name in IDENTITY_KEYS:
        old, new = _read_key(before, name), _read_key(after, name)
        if name in READ_BY_CONTENT:
            old, new = _strip_folders(old), _strip_folders(new)
        yield from _find_changes(name, old, new)


def asks_for_no_more(stored: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> bool:
    """Return True if a complete sweep has nothing to add: same budget, seeds and test sets."""
    return stored is not None and all(
        (stored.get(name) or None) == (asked.get(name) or None) for name in GROWING
    )


def _read_key(spec: Mapping[str, Any], path: str) -> Any:
    value: Any = spec
    for step in path.split("."):
        value = (value or {}).get(step)
    return value


def _find_changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    if before == after or (_is_empty(before) and _is_empty(after)):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(name for name in after if name not in before)):
            yield from _find_changes(f"{path}.{name}", before.get(name), after.get(name))
    elif _are_corpora(before, after):
        for place, pair in enumerate(zip(before, after, strict=True)):
            yield from _find_changes(f"{path}.{place}", *pair)
    else:
        yield path, before, after


def _are_corpora(before: Any, after: Any) -> bool:
    """Return True if both are lists of equally many mappings."""
    if not (isinstance(before, list) and isinstance(after, list) and len(before) == len(after)):
        return False
    return all(isinstance(entry, dict) for entry in (*before, *after))


def _strip_folders(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _strip_folders(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_strip_folders(entry) for entry in value]
    return Path(value).name if isinstance(value, str) and is_file_name(value) else value


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})
