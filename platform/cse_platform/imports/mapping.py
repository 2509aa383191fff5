"""Reads mapping files, which translate the columns of a table or what MLflow's runs logged."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from cse_methods.data.dev_selection import DevTask
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_methods.settings import Settings
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.errors import ImportRefusedError
from cse_platform.sweep.blocks import Seed, Slug
from cse_platform.sweep.problems import Problem, Steps, did_you_mean, problems_in
from cse_platform.sweep.yaml_file import problem_list, read_yaml_file

SCORED_BY = dict.fromkeys((*STS_TASKS, AVG_STS), "spearman") | dict.fromkeys(
    (*TRANSFER_TASKS, AVG_TRANSFER, *LONG_TASKS), "accuracy"
)
"""The main metric of each task."""
_FILE_KIND = "a mapping of runs"

Text = Annotated[str, Field(min_length=1)]


class _Source(Settings):
    @property
    def named(self) -> tuple[str, str]:
        """The kind and name of what is read from the runs; empty for one value of all runs."""
        names = {kind: getattr(self, kind, None) for kind in ("param", "tag", "metric")}
        return next(((kind, name) for kind, name in names.items() if name), ("", ""))


class Logged(_Source):
    """A value of each run: a param, which in a table is a column, a tag of MLflow, or one value."""

    param: Text | None = None
    tag: Text | None = None
    value: Any = None
    names: dict[str, Text] = Field(default={}, description="our name for each of their names")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if len(self.model_fields_set - {"names"}) != 1:
            raise ValueError("expected one of 'param', 'tag' and 'value'")
        return self


class LoggedText(Logged):
    value: Text = ""


class LoggedSeed(Logged):
    value: Seed = 0


class LoggedMetric(_Source):
    metric: Text
    scale: float = Field(default=1.0, gt=0, description="what it is divided by; 100 for percent")


class LoggedDevMetric(LoggedMetric):
    """The metric with the dev score; its history is the dev curve."""

    set: DevTask = Field(default="stsb", description="the dev set that it is measured on")


class LoggedStep(_Source):
    """The column with the step of a table whose rows are the dev points of runs."""

    param: Text
    times: float = Field(default=1.0, gt=0, description="steps in one, e.g. in an epoch")


def _wrap(text_key: str, other_key: str = "value") -> BeforeValidator:
    """Make a validator that reads a text, or another value, as a mapping with it under a key."""

    def wrap(value: Any) -> Any:
        key = text_key if isinstance(value, str) else other_key
        return value if isinstance(value, dict) else {key: value}

    return BeforeValidator(wrap)


class RunMapping(Settings):
    """Maps the columns of a table, or the params, tags and metrics of MLflow's runs, to our
    terms.
    """

    experiments: tuple[Text, ...] = Field(default=(), description="of MLflow, or none: a table")
    filter: str = Field(default="", description="of MLflow, as its search has it")
    sweep: Slug = Field(description="the name that they come under")
    method: Annotated[LoggedText, _wrap("value")]
    backbone: Annotated[LoggedText, _wrap("value")]
    seed: Annotated[LoggedSeed, _wrap("value")]
    hyperparameters: dict[str, Annotated[Logged, _wrap("param")]] = Field(
        default={}, description="by our name: their param, or a value that is no text"
    )
    dev: Annotated[LoggedDevMetric, _wrap("metric")]
    step: Annotated[LoggedStep, _wrap("param")] | None = None
    state: Logged | None = Field(default=None, description="a column State or status without it")
    scores: dict[str, Annotated[LoggedMetric, _wrap("metric")]] = Field(
        default={}, description="test scores: their metric by our task"
    )

    def column_of(self, source: _Source) -> str:
        """Return the column that a value is read from; empty for one value of all runs."""
        kind, name = source.named
        return f"{kind}s.{name}" if self.experiments and name else name

    @property
    def identifying_columns(self) -> set[str]:
        """The columns that tell runs apart."""
        sources = (self.method, self.backbone, self.seed, *self.hyperparameters.values())
        return {self.column_of(source) for source in sources} - {""}


def read_mapping(path: Path, *, mlflow: bool) -> RunMapping:
    """Read the mapping file of an import from MLflow or from a table.

    Raises ImportRefusedError with all its problems, each with its line.
    """
    source = read_yaml_file(path, what=_FILE_KIND, refusal=ImportRefusedError)
    problems, given = list(source.problems), source.data if isinstance(source.data, dict) else {}
    try:
        mapping = RunMapping.model_validate(source.data)
    except ValidationError as error:
        problems = problems or problems_in(error, source.data, model=RunMapping)
    if mlflow and not given.get("experiments"):
        problems.append(Problem((), "the key 'experiments' is missing"))
    of = "MLflow's runs, which have steps" if mlflow else "a table"
    useless = given.keys() & ({"step"} if mlflow else {"experiments", "filter"})
    problems += [Problem((key,), f"not for {of}; leave it out") for key in sorted(useless)]
    if problems:
        raise ImportRefusedError(problem_list(path, f"is not {_FILE_KIND}", problems, source))
    return mapping


def refuse_unknown_names(path: Path, mapping: RunMapping, columns: Collection[str]) -> None:
    """Raise ImportRefusedError for names in the file that are no columns, tasks, hyperparameters.

    Hyperparameters are those of the method of all runs, if it is one, and installed; else any.
    """
    fields: Collection[str] = mapping.hyperparameters
    with suppress(UnknownMethodError):
        fields = get_method(mapping.method.value).config.model_fields
    problems = []
    for name in mapping.hyperparameters.keys() - fields:
        text = f"{mapping.method.value} has no such hyperparameter{did_you_mean(name, fields)}"
        problems.append(Problem(("hyperparameters", name), text))
    for task in mapping.scores.keys() - SCORED_BY.keys():
        text = f"no task {task!r}{did_you_mean(task, SCORED_BY)}"
        problems.append(Problem(("scores", task), text))
    sources: dict[Steps, Any] = {(key,): value for key, value in mapping}
    for key in ("hyperparameters", "scores"):
        sources |= {(key, name): source for name, source in getattr(mapping, key).items()}
    for steps, source in sources.items():
        kind, name = source.named if isinstance(source, _Source) else ("", "")
        start = f"{kind}s." if mapping.experiments else ""
        known = sorted(c.removeprefix(start) for c in columns if c.startswith(start))
        if name and name not in known:
            hint = did_you_mean(name, known) or f"; there are {', '.join(known) or 'none'}"
            problems.append(Problem((*steps, kind), f"no run has a {kind} {name!r}{hint}"))
    if problems:
        document = read_yaml_file(path, what=_FILE_KIND, refusal=ImportRefusedError)
        raise ImportRefusedError(problem_list(path, f"is not {_FILE_KIND}", problems, document))
