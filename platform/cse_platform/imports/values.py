"""Hyperparameters that other scripts wrote as text, in the types of our settings."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from cse_methods.contract import MethodConfig
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.sweep.reading.problems import Problem, did_you_mean
from cse_platform.sweep.reading.pydantic_errors import problems_in
from cse_platform.sweep.reading.yaml_reader import UnreadableYamlError, read_yaml


def parse_text(text: str) -> Any:
    """The YAML value that a text holds: a number, a truth value, a list or null; else the text.

    `None`, as Python prints it, is null too.
    """
    if text == "None":
        return None
    try:
        source = read_yaml(text)
    except UnreadableYamlError:
        return text
    return text if source.problems else source.data


def config_of(method: str) -> type[MethodConfig] | None:
    """The settings of a method; None for one that this installation does not have."""
    try:
        return get_method(method).config
    except UnknownMethodError:
        return None


def typed_values(method: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The values in the types of the method's settings, and what does not fit.

    A method that this installation does not have takes all values as they are.
    """
    config = config_of(method)
    if config is None:
        return dict(values), []
    found: dict[str, Any] = {}
    problems = []
    for name, value in values.items():
        setting = config.model_fields.get(name)
        if setting is None:
            text = f"{method} has no such hyperparameter{did_you_mean(name, config.model_fields)}"
            problems.append(Problem((name,), text))
            continue
        kind: Any = Annotated[setting.annotation, setting]  # with its bounds
        adapter = TypeAdapter[Any](kind)
        try:
            found[name] = adapter.dump_python(adapter.validate_python(value), mode="json")
        except ValidationError as error:
            problems += [problem.under((name,)) for problem in problems_in(error, value)]
    return found, problems
