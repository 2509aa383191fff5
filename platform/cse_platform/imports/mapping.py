"""Reads mapping files, which translate the params, tags and metrics of another lab's runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from cse_methods.contract import MethodConfig
from cse_methods.data.dev_selection import DevTask
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_methods.settings import Settings
from cse_platform.errors import ImportRefusedError
from cse_platform.imports.records import SCORED_BY
from cse_platform.sweep.blocks import Seed, Slug
from cse_platform.sweep.problems import Problem, ProblemsError, did_you_mean, problems_in
from cse_platform.sweep.yaml_file import (
    UnreadableYamlError,
    YamlDocument,
    problem_list,
    read_yaml,
    read_yaml_file,
)

Text = Annotated[str, Field(min_length=1)]
_FILE_KIND = "a mapping of runs"


class Logged(Settings):
    """A value that each run has logged, as a param or a tag."""

    param: Text | None = None
    tag: Text | None = None
    names: dict[str, Text] = Field(default={}, description="our name for each of theirs")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.param is None) == (self.tag is None):
            raise ValueError("expected one of 'param' and 'tag'")
        return self

    @property
    def place(self) -> str:
        return f"param {self.param!r}" if self.param is not None else f"tag {self.tag!r}"


def _wrap_metric(value: Any) -> Any:
    return {"metric": value} if isinstance(value, str) else value


class LoggedMetric(Settings):
    metric: Text
    scale: float = Field(default=1.0, gt=0, description="what it is divided by; 100 for percent")


class LoggedDevMetric(LoggedMetric):
    """The metric with the dev score; its history is the dev curve."""

    set: DevTask = Field(default="stsb", description="the dev set that it is measured on")


class RunMapping(Settings):
    """Maps the params, tags and metrics of another tracker's runs to our terms."""

    sweep: Slug = Field(description="the name that they come under")
    method: Text | Logged
    backbone: Text | Logged
    seed: Seed | Logged
    hyperparameters: dict[str, Text] = Field(default={}, description="their param by our name")
    dev: Annotated[LoggedDevMetric, BeforeValidator(_wrap_metric)]
    scores: dict[str, Annotated[LoggedMetric, BeforeValidator(_wrap_metric)]] = Field(
        default={}, description="test scores: their metric by our task"
    )

    @field_validator("scores")
    @classmethod
    def _check_tasks(cls, scores: dict[str, LoggedMetric]) -> dict[str, LoggedMetric]:
        unknown = [task for task in scores if task not in SCORED_BY]
        if unknown:
            texts = [f"no task {task!r}{did_you_mean(task, SCORED_BY)}" for task in unknown]
            raise ProblemsError([Problem((), text) for text in texts])
        return scores

    def sweep_of(self, method: str, backbone: str) -> str:
        """Return the sweep of a run; if method or backbone vary between runs, each gets its own
        sweep.
        """
        sources = ((method, self.method), (backbone, self.backbone))
        differing = [value for value, source in sources if isinstance(source, Logged)]
        return "-".join([self.sweep, *differing])


class MLflowMapping(RunMapping):
    """A mapping for the runs of some MLflow experiments."""

    experiments: tuple[Text, ...] = Field(min_length=1)
    filter: str = Field(default="", description="as MLflow's search has it")


_Mapping = TypeVar("_Mapping", bound=RunMapping)


def load_mapping(path: Path, model: type[_Mapping]) -> tuple[_Mapping, YamlDocument]:
    """Read a mapping file, with the line of each value. Raises ImportRefusedError with all
    problems.
    """
    source = read_yaml_file(path, what=_FILE_KIND, refusal=ImportRefusedError)
    problems = list(source.problems)
    if not problems:
        try:
            return model.model_validate(source.data), source
        except ValidationError as error:
            problems = problems_in(error, source.data, model=model)
    raise mapping_error(path, problems, source)


def mapping_error(path: Path, problems: list[Problem], source: YamlDocument) -> ImportRefusedError:
    """Make the error that lists the problems of a mapping file, each with its line."""
    return ImportRefusedError(problem_list(path, f"is not {_FILE_KIND}", problems, source))


def parse_text(text: str) -> Any:
    """Parse a text as a YAML number, boolean, list or null; otherwise return the text.

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
    """Return the config class of a method; None if this installation does not have the method."""
    try:
        return get_method(method).config
    except UnknownMethodError:
        return None


def typed_values(method: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Convert values to the types of the method's settings. Also returns the problems.

    The values of a method that this installation does not have are not converted.
    """
    config = config_of(method)
    if config is None:
        return dict(values), []
    typed: dict[str, Any] = {}
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
            typed[name] = adapter.dump_python(adapter.validate_python(value), mode="json")
        except ValidationError as error:
            problems += [problem.under((name,)) for problem in problems_in(error, value)]
    return typed, problems
