"""Format settings as text: values as a sweep file has them, and what a setting takes."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

_BARE = re.compile(r"(?!(true|false|null)$)[A-Za-z][\w.+/-]*")
_SCALARS = {
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "null": "null",
}
_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}

Schema = Mapping[str, Any]
"""JSON schema, as pydantic writes it."""


def yaml_text(value: Any) -> str:
    """Format a value on one line of YAML; floats to six digits."""
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


def kind_of(config: type[BaseModel], name: str) -> str:
    """Describe what a setting takes, e.g. "number > 0", "cls or avg", "[text, …] or null"."""
    field = config.model_fields[name]
    models = {}
    for model in _find_models(field.annotation):
        # What is left out of JSON while it is empty is gathered from the others, and not written.
        written = (n for n, inner in model.model_fields.items() if inner.exclude_if is None)
        mapping = f"{{{', '.join(written)}}}"
        models[model.__name__] = f"text or {mapping}" if _takes_text(model) else mapping
    kind = _describe_kind(_read_properties(config)[name], models)
    # A list of one may be written without brackets.
    takes_text = kind.startswith("[") and _takes_text(Annotated[field.annotation, field])
    return f"text or {kind}" if takes_text else kind


def choices_of(config: type[BaseModel], name: str) -> list[Any]:
    """List the values of a setting that takes only these, without null; empty for others."""
    choices, waiting = list[Any](), [_read_properties(config)[name]]
    while waiting:
        schema = waiting.pop(0)
        if schema.get("type") == "boolean":
            choices += [True, False]
        choices += schema.get("enum", [schema["const"]] if "const" in schema else [])
        waiting[:0] = schema.get("anyOf", ())
    return choices


@cache
def _read_properties(config: type[BaseModel]) -> dict[str, Schema]:
    properties: dict[str, Schema] = config.model_json_schema()["properties"]
    return properties


def _describe_kind(schema: Schema, models: Mapping[str, str]) -> str:
    match schema:
        case {"$ref": str() as reference}:
            return models[reference.rpartition("/")[2]]
        case {"enum": choices}:
            *others, last = map(yaml_text, choices)
            return f"{', '.join(others)} or {last}" if others else last
        case {"const": choice}:
            return yaml_text(choice)
        case {"anyOf": parts}:
            kinds = [_describe_kind(part, models) for part in parts]
            return " or ".join(sorted(kinds, key=lambda kind: kind == "null"))
        case {"prefixItems": parts}:
            first, *others = (_describe_kind(part, models) for part in parts)
            is_long = first.startswith("[")
            same = ("the same" if is_long and kind == first else kind for kind in others)
            return f"[{', '.join([first, *same])}]"
        case {"items": part, **limits}:
            # Behind a validator of ours, pydantic writes the one for the other.
            least = limits.get("minItems", limits.get("minLength", 0))
            return f"[{_describe_kind(part, models)}, …]" + (f", {least} or more" if least else "")
        case {"additionalProperties": dict() as entry}:
            return f"a mapping to {_describe_kind(entry, models)}"
    bounds = [f"{sign} {schema[key]:g}" for key, sign in _BOUNDS.items() if key in schema]
    return f"{_SCALARS[schema['type']]} {', '.join(bounds)}".strip()


def _find_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _find_models(part)


def _takes_text(annotation: Any) -> bool:
    """Try whether a bare word is valid where a list is expected, which no schema says."""
    try:
        TypeAdapter(annotation).validate_python("a")
    except ValidationError:
        return False
    return True
