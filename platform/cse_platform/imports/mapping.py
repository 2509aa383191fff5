"""Reads mapping files, which translate the columns of a table or what MLflow's runs logged."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, cast

from pydantic import Field, ValidationError, model_validator

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
T = TypeVar("T")


class _Source(Settings):
    """Where a value of each run is read. A text, or another value, stands for one key alone."""

    text_key: ClassVar[str] = "value"

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, given: Any) -> Any:
        key = cls.text_key if isinstance(given, str) else "value"
        return given if isinstance(given, dict) else {key: given}

    @property
    def named(self) -> tuple[str, str]:
        """The kind and name of what is read from the runs; empty for one value of all runs."""
        names = {kind: getattr(self, kind, None) for kind in ("param", "tag", "metric")}
        return next(((kind, name) for kind, name in names.items() if name), ("", ""))


class Logged(_Source, Generic[T]):
    """A value of each run: a param, which in a table is a column, a tag of MLflow, or one value."""

    param: Text | None = None
    tag: Text | None = None
    value: T = Field(default=cast(Any, None))
    names: dict[str, Text] = Field(default={}, description="our name for each of their names")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if len(self.model_fields_set - {"names"}) != 1:
            raise ValueError("expected one of 'param', 'tag' and 'value'")
        return self


class LoggedParam(Logged[Any]):
    text_key = "param"


class LoggedSeed(Logged[Seed]):
    text_key = "param"


class LoggedMetric(_Source):
    text_key = "metric"
    metric: Text
    scale: float = Field(default=1.0, gt=0, description="what it is divided by; 100 for percent")


class LoggedDevMetric(LoggedMetric):
    """The metric with the dev score; its history is the dev curve."""

    set: DevTask = Field(default="stsb", description="the dev set that it is measured on")


class LoggedStep(_Source):
    """The column with the step of a table whose rows are the dev points of runs."""

    text_key = "param"
    param: Text
    times: float = Field(default=1.0, gt=0, description="steps in one, e.g. in an epoch")


class RunMapping(Settings):
    """Maps the columns of a table, or the params, tags and metrics of MLflow's runs, to our
    terms.
    """

    experiments: tuple[Text, ...] = Field(default=(), description="of MLflow, or none: a table")
    filter: str = Field(default="", description="of MLflow, as its search has it")
    sweep: Slug = Field(description="the name that they come under")
    method: Logged[Text]
    backbone: Logged[Text]
    seed: LoggedSeed
    hyperparameters: dict[str, LoggedParam] = Field(default={}, description="by our name")
    dev: LoggedDevMetric
    step: LoggedStep | None = None
    state: LoggedParam | None = Field(default=None, description="else a column State or status")
    scores: dict[str, LoggedMetric] = Field(default={}, description="test scores by our task")

    def column_of(self, source: _Source) -> str:
        """Return the column that a value is read from; empty for one value of all runs."""
        kind, name = source.named
        return f"{kind}s.{name}" if self.experiments and name else name

    @property
    def identifying_columns(self) -> set[str]:
        """The columns that tell runs apart."""
        sources: list[_Source] = [self.method, self.backbone, self.seed]
        sources += self.hyperparameters.values()
        return {self.column_of(source) for source in sources} - {""}


class MappingFile:
    """The mapping of a file for an import from MLflow or from a table.

    Raises ImportRefusedError with all problems of the file, each with its line.
    """

    def __init__(self, path: Path, *, mlflow: bool) -> None:
        self._path = path
        self._document = read_yaml_file(path, what=_FILE_KIND, refusal=ImportRefusedError)
        given, problems = self._document.data, [*self._document.problems]
        try:
            self.mapping = RunMapping.model_validate(given)
        except ValidationError as error:
            problems = problems or problems_in(error, given, model=RunMapping)
        if mlflow and not given.get("experiments"):
            problems.append(Problem((), "the key 'experiments' is missing"))
        of = "MLflow's runs, which have steps" if mlflow else "a table"
        useless = given.keys() & ({"step"} if mlflow else {"experiments", "filter"})
        problems += [Problem((key,), f"not for {of}; leave it out") for key in sorted(useless)]
        self._refuse(problems)

    def refuse_unknown_names(self, columns: Collection[str]) -> None:
        """Raise ImportRefusedError for names that are no columns, tasks or hyperparameters.

        Hyperparameters are those of the method of all runs, if it is one, and installed; else any.
        """
        mapping, method = self.mapping, self.mapping.method.value or ""
        fields: Collection[str] = mapping.hyperparameters
        with suppress(UnknownMethodError):
            fields = get_method(method).config.model_fields
        problems = [
            Problem((key, name), f"{refusal.format(name)}{did_you_mean(name, known)}")
            for key, known, refusal in (
                ("hyperparameters", fields, f"{method} has no such hyperparameter"),
                ("scores", SCORED_BY, "no task {!r}"),
            )
            for name in getattr(mapping, key).keys() - known
        ]
        sources: dict[Steps, Any] = {(key,): source for key, source in mapping}
        for key in ("hyperparameters", "scores"):
            sources |= {(key, name): source for name, source in sources[key,].items()}
        for steps, source in sources.items():
            kind, name = source.named if isinstance(source, _Source) else ("", "")
            start = f"{kind}s." if mapping.experiments else ""
            known = sorted(c.removeprefix(start) for c in columns if c.startswith(start))
            if name and name not in known:
                hint = did_you_mean(name, known) or f"; there are {', '.join(known) or 'none'}"
                what = kind if mapping.experiments else "column"
                problems.append(Problem((*steps, kind), f"no run has a {what} {name!r}{hint}"))
        self._refuse(problems)

    def _refuse(self, problems: Sequence[Problem]) -> None:
        if problems:
            text = problem_list(self._path, f"is not {_FILE_KIND}", problems, self._document)
            raise ImportRefusedError(text)
