"""Values that pydantic would quietly turn into another type: `"3"` or `true` into a number.

Pydantic's strict mode is no help: it refuses a list for a tuple once a validator has run before.
"""

from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from cse_methods.contract import MethodConfig
from cse_platform.sweep.reading.problems import Path, Problem, format_value


def type_changes(config: type[MethodConfig], name: str, value: Any) -> list[Problem]:
    """Scalars in the value of a setting that would change type; paths start at the value."""
    try:
        read = _adapter(config, name).validate_python(value)
    except ValidationError:
        return []  # validating the whole configuration names this, and better
    return _changes(value, read, ())


@cache
def _adapter(config: type[MethodConfig], name: str) -> TypeAdapter[Any]:
    field = config.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind)


def _changes(given: Any, read: Any, path: Path) -> list[Problem]:
    if isinstance(given, list) and isinstance(read, (list, tuple)) and len(given) == len(read):
        inside = [(*pair, (*path, i)) for i, pair in enumerate(zip(given, read, strict=True))]
    elif isinstance(given, dict):
        entries = read if isinstance(read, dict) else vars(read)
        inside = [(given[key], entries.get(key), (*path, key)) for key in given]
    else:
        wanted = _wanted(given, read)
        text = f"expected {wanted}, got {format_value(given)}"
        return [Problem(path, text)] if wanted else []
    return [problem for step in inside for problem in _changes(*step)]


def _wanted(given: Any, read: Any) -> str | None:
    if isinstance(read, bool):
        return None if isinstance(given, bool) else "true or false"
    if isinstance(read, (int, float)) and isinstance(given, (bool, str)):
        return "a number"
    return None
