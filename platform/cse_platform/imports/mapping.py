"""Reads mapping files, which translate the columns of a table or what MLflow's runs logged."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from cse_methods.data.dev_selection import DevTask
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_methods.settings import Settings
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.errors import ImportRefusedError
from cse_platform.stores.mlflow.logged_runs import LoggedRun
from cse_platform.sweep.blocks import Seed, Slug
from cse_platform.sweep.problems import Problem, ProblemsError, did_you_mean, problems_in
from cse_platform.sweep.yaml_file import problem_list, read_yaml_file

SCORED_BY = dict.fromkeys((*STS_TASKS, AVG_STS), "spearman") | dict.fromkeys(
    (*TRANSFER_TASKS, AVG_TRANSFER, *LONG_TASKS), "accuracy"
)
"""The main metric of each task."""
_FILE_KIND = "a mapping of runs"

Text = Annotated[str, Field(min_length=1)]


class Logged(Settings):
    """A value of each run: a param, which in a table is a column, or a tag of MLflow."""

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


class Fixed(Settings):
    """A value that all runs have, and that nothing has logged."""

    value: Any


class LoggedMetric(Settings):
    metric: Text
    scale: float = Field(default=1.0, gt=0, description="what it is divided by; 100 for percent")


class LoggedDevMetric(LoggedMetric):
    """The metric with the dev score; its history is the dev curve."""

    set: DevTask = Field(default="stsb", description="the dev set that it is measured on")


class LoggedStep(Settings):
    """The column with the step of a table whose rows are the dev points of runs."""

    param: Text
    times: float = Field(default=1.0, gt=0, description="steps in one, e.g. in an epoch")


def _wrap(key: str) -> BeforeValidator:
    """Make a validator that reads a text as a mapping with it under this key."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def _wrap_value(value: Any) -> Any:
    return value if isinstance(value, str | dict) else {"value": value}


class RunMapping(Settings):
    """Maps the columns of a table, or the params, tags and metrics of MLflow's runs, to our
    terms.
    """

    experiments: tuple[Text, ...] = Field(default=(), description="of MLflow")
    filter: str = Field(default="", description="of MLflow, as its search has it")
    sweep: Slug = Field(description="the name that they come under")
    method: Text | Logged
    backbone: Text | Logged
    seed: Seed | Logged
    hyperparameters: dict[str, Annotated[Text | Fixed, BeforeValidator(_wrap_value)]] = Field(
        default={}, description="by our name: their param, or a value that is no text"
    )
    dev: Annotated[LoggedDevMetric, _wrap("metric")]
    step: Annotated[LoggedStep, _wrap("param")] | None = None
    state: Logged | None = Field(default=None, description="a column State or status without it")
    scores: dict[str, Annotated[LoggedMetric, _wrap("metric")]] = Field(
        default={}, description="test scores: their metric by our task"
    )

    @field_validator("scores")
    @classmethod
    def _check_tasks(cls, scores: dict[str, LoggedMetric]) -> dict[str, LoggedMetric]:
        texts = [f"no task {t!r}{did_you_mean(t, SCORED_BY)}" for t in scores if t not in SCORED_BY]
        if texts:
            raise ProblemsError([Problem((), text) for text in texts])
        return scores

    @property
    def params(self) -> dict[tuple[str, str], str]:
        """The params that tell runs apart, by their place in the file."""
        logged = {key: getattr(self, key) for key in ("method", "backbone", "seed")}
        return {
            (key, "param"): value.param
            for key, value in logged.items()
            if isinstance(value, Logged) and value.param
        } | {
            ("hyperparameters", name): param
            for name, param in self.hyperparameters.items()
            if isinstance(param, str)
        }


def read_mapping(path: Path, *, mlflow: bool) -> RunMapping:
    """Read the mapping file of an import from MLflow or from a table.

    Raises ImportRefusedError with all its problems, each with its line.
    """
    source = read_yaml_file(path, what=_FILE_KIND, refusal=ImportRefusedError)
    problems, given = list(source.problems), source.data if isinstance(source.data, dict) else {}
    useless = ("step",) if mlflow else ("experiments", "filter")
    of = "MLflow's runs, which have steps" if mlflow else "a table"
    try:
        mapping = RunMapping.model_validate(source.data)
    except ValidationError as error:
        problems = problems or problems_in(error, source.data, model=RunMapping)
    if mlflow and not given.get("experiments"):
        problems.append(Problem((), "the key 'experiments' is missing"))
    problems += [Problem((key,), f"not for {of}; leave it out") for key in useless if key in given]
    if problems:
        raise ImportRefusedError(problem_list(path, f"is not {_FILE_KIND}", problems, source))
    return mapping


def refuse_unknown_names(path: Path, mapping: RunMapping, runs: Sequence[LoggedRun]) -> None:
    """Raise ImportRefusedError for names in a mapping file that no run has logged, and for
    hyperparameters that the method lacks.
    """
    problems = list(_find_unknown_names(mapping, runs)) if runs else []
    if problems:
        source = read_yaml_file(path, what=_FILE_KIND, refusal=ImportRefusedError)
        raise ImportRefusedError(problem_list(path, f"is not {_FILE_KIND}", problems, source))


def _find_unknown_names(mapping: RunMapping, runs: Sequence[LoggedRun]) -> Iterator[Problem]:
    def absent(path: tuple[str, ...], kind: str, name: str) -> Iterator[Problem]:
        # A column whose texts are no numbers is there; each of its rows is told.
        kinds = {f"{kind}s"} | (
            {"params"} if kind == "metric" and not mapping.experiments else set()
        )
        known = sorted({key for run in runs for each in kinds for key in getattr(run, each)})
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {', '.join(known) or 'none'}"
            yield Problem(path, f"no run has a {kind} {name!r}{hint}")

    for path, param in mapping.params.items():
        yield from absent(path, "param", param)
    for key in ("method", "backbone", "seed", "state"):
        logged = getattr(mapping, key)
        if isinstance(logged, Logged) and logged.tag:
            yield from absent((key, "tag"), "tag", logged.tag)
    if mapping.state and mapping.state.param:
        yield from absent(("state", "param"), "param", mapping.state.param)
    yield from absent(("dev", "metric"), "metric", mapping.dev.metric)
    for task, score in mapping.scores.items():
        yield from absent(("scores", task, "metric"), "metric", score.metric)
    if isinstance(mapping.method, str):
        try:
            known = get_method(mapping.method).config.model_fields
        except UnknownMethodError:
            return
        for name in mapping.hyperparameters.keys() - known.keys():
            text = f"{mapping.method} has no such hyperparameter{did_you_mean(name, known)}"
            yield Problem(("hyperparameters", name), text)
