"""Translates pydantic's errors into our words; no other module knows their texts."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, BeforeValidator, RootModel, ValidationError
from pydantic_core import ErrorDetails

from cse_methods.errors import SettingError
from cse_platform.sweep.problems import (
    Problem,
    ProblemsError,
    Steps,
    did_you_mean,
    format_value,
    our_words,
)
from cse_platform.sweep.yaml_file import real_path

_EXPECTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "text",
    "string_too_short": "text that is not empty",
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a mapping"),
    "literal_error": "{expected}",
    "expected": "{what}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} or fewer entries",
}


def expanding_kind(*, default: str | None) -> BeforeValidator:
    """Make a validator for a union with the discriminator `kind`: its name alone is enough.

    `default` is the kind of a mapping that names none. Whatever is no mapping, and a mapping
    without a kind where there is no default, becomes the kind itself; `problems_in` shows it as
    the value that was refused.
    """

    def expand_kind(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return value
        if isinstance(value, dict) and ("kind" in value or default is not None):
            return {"kind": default, **value}
        return {"kind": value}

    return BeforeValidator(expand_kind)


def problems_in(
    error: ValidationError, data: Any, *, model: type[BaseModel] | None = None
) -> list[Problem]:
    """List the problems in a validation error; paths start at `data`, the plain values.

    Union tags and the like are taken out of the paths by walking `data`. The near names of an
    unknown key are looked up in `model`.
    """
    expected: dict[tuple[Steps, str], list[str]] = defaultdict(list)
    inputs: dict[tuple[Steps, str], Any] = {}
    problems = []
    for detail in error.errors():
        loc, given = _drop_kinds(detail["loc"], model), detail["input"]
        if detail["type"] == "union_tag_invalid":
            loc, given = (*loc, "kind"), given["kind"]
        path = real_path(loc, data)
        if phrase := _format_expectation(detail):
            # The members of a union each say what they expect of the same value.
            place = (path, format_value(given))
            expected[place].append(phrase)
            inputs[place] = given
        else:
            problems += [inner.under(path) for inner in _translate_error(detail, model)]
    for (path, got), phrases in expected.items():
        wanted = " or ".join(dict.fromkeys(phrases))
        given = inputs[path, got]
        if isinstance(given, dict):
            hint = our_words(given, re.findall(r"(\w+):", wanted))
        else:
            hint = did_you_mean(got.strip("'"), re.findall(r"'([^']+)'", wanted))
        problems.append(Problem(path, f"expected {wanted}, got {got}{hint}"))
    return list(dict.fromkeys(problems))


def _format_expectation(detail: ErrorDetails) -> str | None:
    if detail["type"] == "union_tag_invalid":
        return " or ".join(detail["ctx"]["expected_tags"].rsplit(", ", 1))
    if template := _EXPECTED.get(detail["type"]):
        return template.format(
            **{key: _simplify_number(v) for key, v in detail.get("ctx", {}).items()}
        )
    if detail["msg"].startswith("Input should be "):
        return detail["msg"].removeprefix("Input should be ")
    return None


def _simplify_number(bound: Any) -> Any:
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _translate_error(detail: ErrorDetails, model: type[BaseModel] | None) -> list[Problem]:
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, ProblemsError):
        return list(cause.problems)
    if isinstance(cause, SettingError):
        return [Problem((cause.setting,), str(cause))]
    if detail["type"] == "extra_forbidden":
        return [Problem((), _format_unknown_key(detail["loc"], model))]
    if detail["type"] == "missing":
        key = detail["loc"][-1]
        return [Problem((key,), f"the key {key!r} is missing")]
    return [Problem((), str(cause) if cause else detail["msg"])]


def _format_unknown_key(loc: Steps, model: type[BaseModel] | None) -> str:
    fields = {k: f for part in _find_models(loc[:-1], model) for k, f in part.model_fields.items()}
    known = sorted(key for key, field in fields.items() if field.repr)  # others no file can say
    hint = did_you_mean(str(loc[-1]), known)
    return f"no such key{hint}" if hint or not known else f"no such key; known: {', '.join(known)}"


def _find_models(loc: Steps, model: type[BaseModel] | None) -> list[type[BaseModel]]:
    """Find the models that can stand at `loc`, tags of unions included."""
    here = [model] if model else []
    for step in loc:
        here = _follow_step(here, step)
    return here


def _drop_kinds(loc: Steps, model: type[BaseModel] | None) -> Steps:
    """Drop the steps of `loc` that are the `kind` of a union's member, and so no key of the file.

    Only the model tells them: a `percentile` pruner has an option of the same name.
    """
    here = [model] if model else []
    kept = []
    for step in loc:
        if len(here) == 1 or not any(step in _list_kinds(part) for part in here):
            kept.append(step)
        here = _follow_step(here, step)
    return tuple(kept)


def _follow_step(here: list[type[BaseModel]], step: str | int) -> list[type[BaseModel]]:
    """Find the models below `here`: of the members of a union, the one that a tag names."""
    if tagged := [part for part in here if step == part.__name__ or step in _list_kinds(part)]:
        return tagged
    fields = [part.model_fields[str(step)] for part in here if step in part.model_fields]
    below = [inner for field in fields for inner in _iterate_models(field.annotation)]
    return below if fields else here


def _list_kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    field = model.model_fields.get("kind")
    return () if field is None else get_args(field.annotation)


def _iterate_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        yield from _iterate_models(annotation.model_fields["root"].annotation)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _iterate_models(part)
