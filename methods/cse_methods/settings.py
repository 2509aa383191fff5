"""The base class of everything that is read from a file, and fields that cite the paper."""

from abc import ABCMeta
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

WholeNumber = Annotated[
    int,
    BeforeValidator(
        lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
    ),
    Field(strict=True),
]
"""A whole number, also written as `10.0` or `1e1`; texts and `true` are none."""
NotNegative = Annotated[WholeNumber, Field(ge=0)]
Positive = Annotated[WholeNumber, Field(ge=1)]


class Settings(BaseModel):
    """Base of everything that is read from a file: frozen, without unknown keys or infinities."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """What to write instead of keys that people expect here, by key."""


def setting(
    default: Any, description: str = "", *, symbol: str = "", source: str = "", **field: Any
) -> Any:
    """Declare a pydantic field with its symbol in the paper and its place there.

    Args:
        default: the value where a file gives none.
        description: what it is, with its unit.
        symbol: of the paper, e.g. "τ".
        source: its place in the paper, e.g. "eq. 2", or "released code".
        field: its bounds, as for `pydantic.Field`.
    """
    cited: dict[str, Any] = {"symbol": symbol, "source": source}
    return Field(default=default, description=description, json_schema_extra=cited, **field)


released = partial(setting, source="released code")
"""A field whose place is the code that the authors released."""


AnySettings = TypeVar("AnySettings", bound=Settings)


def record_reads(settings: AnySettings) -> tuple[AnySettings, set[str]]:
    """Copy settings to record which are read. Returns the copy, and the names read so far.

    An attribute counts as read if it is read of the copy, or of a copy of that; all that a
    `model_dump` gives counts too, because others may read it there. Only the first read of each
    costs anything.
    """
    kind, read = type(settings), set[str]()

    def model_dump(self: Any, **options: Any) -> dict[str, Any]:
        dumped: dict[str, Any] = kind.model_dump(self, **options)
        read.update(dumped.keys() & kind.model_fields.keys())
        return dumped

    def reduce(self: Any) -> Any:
        return copy, (_change_class(self.model_copy(), kind),)

    members = {name: _FirstRead(name, read) for name in kind.model_fields}
    overrides = {"model_dump": model_dump, "__reduce__": reduce, "__slots__": ()}
    # Not by pydantic's own metaclass, which would build all validators anew.
    recording = ABCMeta.__new__(type(kind), kind.__name__, (kind,), {**members, **overrides})
    return _change_class(settings.model_copy(), recording), read


class _FirstRead:
    """Replaces a setting until it is read; then it records that and leaves the plain attribute."""

    def __init__(self, name: str, read: set[str]) -> None:
        self.name, self.read = name, read

    def __get__(self, settings: Any, kind: type) -> Any:
        if settings is None:
            raise AttributeError(self.name)
        self.read.add(self.name)
        with suppress(AttributeError):  # another thread was as fast
            delattr(kind, self.name)
        return vars(settings)[self.name]

    def __set__(self, settings: Any, value: Any) -> None:
        """Python asks what can be set before it looks into the instance; nothing is set here."""
        raise AttributeError(f"{self.name} is frozen")


def _change_class(settings: Any, kind: type) -> Any:
    object.__setattr__(settings, "__class__", kind)
    return settings
