"""References such as `{best: {method: …, backbone: …}}`, to the leaderboard's best encoder.

A reference may stand wherever a teacher stands. The platform resolves it before the first trial
starts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.sweep.problems import Problem, Steps, format_value


@dataclass(frozen=True)
class BestReference:
    """Names the best trial, by its dev value, of a method on a backbone."""

    method: str
    backbone: str

    @property
    def placeholder(self) -> str:
        """The text that stands for the folder until the reference is resolved."""
        return f"best:{self.method}/{self.backbone}"


def references_in(value: Any) -> Iterator[BestReference]:
    """Yield every well-formed reference inside a value, in order."""
    for _, inner in _find_candidates(value, ()):
        if (reference := _parse_reference(inner)) is not None:
            yield reference


def replace_references(value: Any, stand_in: Callable[[BestReference], Any]) -> Any:
    """Copy a value with each reference replaced by what `stand_in` returns for it."""
    if _is_candidate(value) and (reference := _parse_reference(value["best"])) is not None:
        return stand_in(reference)
    if isinstance(value, Mapping):
        return {key: replace_references(inner, stand_in) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_references(inner, stand_in) for inner in value]
    return value


def with_placeholders(value: Any) -> Any:
    """Copy a value with each reference replaced by its placeholder."""
    return replace_references(value, lambda reference: reference.placeholder)


def reference_problems(value: Any) -> list[Problem]:
    """List the problems of the references inside a value; paths start at the value."""
    checked = ((path, _check_reference(inner)) for path, inner in _find_candidates(value, ()))
    return [Problem(path, text) for path, text in checked if text is not None]


def _check_reference(inner: Any) -> str | None:
    reference = _parse_reference(inner)
    if reference is None:
        return f"expected {{best: {{method: …, backbone: …}}}}, got {format_value({'best': inner})}"
    try:
        get_method(reference.method)
    except UnknownMethodError as error:
        return str(error)
    return None


def _is_candidate(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"best"}


def _parse_reference(inner: Any) -> BestReference | None:
    if not isinstance(inner, Mapping) or set(inner) != {"method", "backbone"}:
        return None
    if not all(isinstance(name, str) and name for name in inner.values()):
        return None
    return BestReference(inner["method"], inner["backbone"])


def _find_candidates(value: Any, path: Steps) -> Iterator[tuple[Steps, Any]]:
    if _is_candidate(value):
        yield path, value["best"]
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _find_candidates(inner, (*path, key))
    elif isinstance(value, (list, tuple)):
        for position, inner in enumerate(value):
            yield from _find_candidates(inner, (*path, position))
