"""Values and kinds of settings as a sweep file has them, in short words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

_BARE = re.compile(r"(?!(true|false|null)$)[A-Za-z][\w.+/-]*")
_SCALARS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def yaml_text(value: Any) -> str:
    """A value on one line of YAML; floats to six digits."""
    match to_jsonable_python(value):
        case None:
            return "null"
        case bool() as truth:
            return str(truth).lower()
        case float() as number:
            return f"{number:.6g}"
        case str() as text:
            return text if _BARE.fullmatch(text) else "'" + text.replace("'", "''") + "'"
        case list() as entries:
            return f"[{', '.join(map(yaml_text, entries))}]"
        case dict() as entries:
            pairs = (f"{yaml_text(name)}: {yaml_text(entry)}" for name, entry in entries.items())
            return f"{{{', '.join(pairs)}}}"
        case other:
            return str(other)


def kind_of(field: FieldInfo) -> str:
    """What a setting takes, e.g. "number > 0", "cls or avg", "[text, …] or null"."""
    kind = _kind(field.annotation, field.metadata)
    # A list of one may be written without brackets.
    return f"text or {kind}" if kind[0] == "[" and _takes_text(field.annotation, field) else kind


def choices_of(field: FieldInfo) -> list[Any]:
    """The values of a setting that takes these only, but for null; else none."""
    return list(_choices(field.annotation))


def _kind(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(parts[0], list(_flat(parts[1:])))
    if origin is Literal:
        return _listed([yaml_text(part) for part in parts])
    if origin in (Union, UnionType):
        kinds = [_kind(part, metadata) for part in parts if part is not NoneType]
        return " or ".join(kinds + ["null"] * (NoneType in parts))
    if origin in (tuple, list):
        return _kind_of_list(parts, metadata)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _kind_of_model(annotation)
    return _SCALARS.get(annotation, str(annotation)) + _bounds(metadata)


def _kind_of_list(parts: Sequence[Any], metadata: Sequence[Any]) -> str:
    if parts[-1] is Ellipsis or len(parts) == 1:
        least = max((m.min_length for m in metadata if isinstance(m, MinLen)), default=0)
        return f"[{_kind(parts[0])}, …]" + (f", {least} or more" if least else "")
    return f"[{', '.join(map(_kind, parts))}]"


def _kind_of_model(model: type[BaseModel]) -> str:
    mapping = f"{{{', '.join(model.model_fields)}}}"
    return f"text or {mapping}" if _takes_text(model) else mapping


def _takes_text(annotation: Any, *metadata: Any) -> bool:
    """Whether a bare word stands for the whole."""
    try:
        TypeAdapter(Annotated[annotation, *metadata, None]).validate_python("a")
    except ValidationError:
        return False
    return True


def _bounds(metadata: Sequence[Any]) -> str:
    told: Mapping[type, str] = {Gt: "> {0.gt:g}", Ge: ">= {0.ge:g}", Lt: "< {0.lt:g}",
                                Le: "<= {0.le:g}"}  # fmt: skip
    bounds = [told[type(part)].format(part) for part in metadata if type(part) in told]
    return " " + ", ".join(bounds) if bounds else ""


def _flat(metadata: Sequence[Any]) -> Iterator[Any]:
    for part in metadata:
        yield from part.metadata if isinstance(part, FieldInfo) else (part,)


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _choices(annotation: Any) -> Iterator[Any]:
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is bool:
        yield from (True, False)
    elif origin is Literal:
        yield from parts
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _choices(part)
