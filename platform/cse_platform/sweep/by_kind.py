"""Settings with several kinds, of which a file picks one by `{kind: …}` or by the name alone."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from cse_methods.settings import Settings
from cse_platform.sweep.problems import Problem, ProblemsError, did_you_mean, format_value

NotNegative = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]


class ByKind(Settings):
    """Settings with a field `kind`, whose value a file may write in their place."""

    @model_validator(mode="before")
    @classmethod
    def _expand_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


Kinds = Mapping[str, type[ByKind]]
"""The classes by the names that a file gives them."""


def kind_among(kinds: Kinds, *, default: str) -> Callable[[Any], str | None]:
    """Make a function that returns the tag of a value: the name of its class, or None.

    `default` is the kind of a mapping that names none.
    """

    def kind_of(value: Any) -> str | None:
        if isinstance(value, ByKind):
            return type(value).__name__
        kind = value.get("kind", default) if isinstance(value, dict) else value
        return kinds[kind].__name__ if isinstance(kind, str) and kind in kinds else None

    return kind_of


def refusing_others(kinds: Kinds, *, default: str) -> BeforeValidator:
    """Make a validator that refuses values of no known kind, and lists the kinds."""
    kind_of = kind_among(kinds, default=default)

    def refuse_others(value: Any) -> Any:
        if kind_of(value) is None:
            place = ("kind",) if isinstance(value, dict) and "kind" in value else ()
            kind = value["kind"] if place else value
            hint = did_you_mean(kind, kinds) if isinstance(kind, str) else ""
            *first, last = map(repr, kinds)
            text = f"expected {', '.join(first)} or {last}, got {format_value(kind)}{hint}"
            raise ProblemsError([Problem(place, text)])
        return value

    return BeforeValidator(refuse_others)
