"""The blocks `seeds:`, `evaluate:`, `keep:` and `stores:` of a sweep file."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cse_methods.data.own.naming import put_down
from cse_methods.data.own.spec import OwnPairs
from cse_methods.errors import EvaluationError
from cse_methods.settings import Settings
from cse_methods.tasks import Tasks, parse_tasks
from cse_platform.secrets import hide
from cse_platform.sweep.reading.problems import Problem, ProblemsError, format_value


def slug_problem(value: str) -> str | None:
    """What is wrong with the name of a folder or in an address; None if nothing is."""
    plain = value.replace("-", "a").replace("_", "a").replace(".", "a")
    if plain.isascii() and plain.isalnum() and value[0].isalnum() and len(value) <= 100:
        return None
    return (
        "expected at most 100 letters, digits, '-', '_' and '.', the first a letter or digit, "
        f"got {format_value(value)}"
    )


def _slug(value: str) -> str:
    if problem := slug_problem(value):
        raise ValueError(problem)
    return value


def _hide(value: Any) -> Any:
    """Mask these URLs from now on, before anything is said of them."""
    for url in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(url, str) and "://" in url:  # another text could be any word
            hide(url)
    return value


SecretUrls = Annotated[tuple[SecretStr, ...], BeforeValidator(_hide)]
Slug = Annotated[str, Field(min_length=1), AfterValidator(_slug)]
Count = Annotated[int, Field(strict=True, ge=1)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**32)]
Share = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class Confirmation(Settings):
    """More seeds for the best configurations."""

    top: Count = Field(description="how many configurations")
    seeds: tuple[Seed, ...] = Field(min_length=1, description="each distinct")
    race: bool = Field(
        default=False,
        strict=True,
        exclude_if=lambda race: not race,  # as in the journals of older versions
        description="give a further seed only to configurations that can still be the best",
    )

    @field_validator("seeds")
    @classmethod
    def _check_distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds must be distinct, got {format_value(list(seeds))}")
        return seeds


SeedsValue = Literal["mean", "lower_bound"]


class TrialSeeds(Settings):
    """Which seeds trials are trained with, and what several of them are worth together."""

    search: Seed = Field(default=42, description="of every trial of the search")
    value: SeedsValue = Field(
        default="mean",
        exclude_if=lambda value: value == "mean",  # as in the journals of older versions
        description="of a configuration, where the sweep takes the best one: the `mean` over its "
        "seeds, or the `lower_bound` of that mean at 95 %",
    )
    confirm: Confirmation | None = None

    @property
    def further(self) -> tuple[int, ...]:
        """The seeds that the best configurations get beside the search's own."""
        seeds = () if self.confirm is None else self.confirm.seeds
        return tuple(seed for seed in seeds if seed != self.search)


class Evaluate(Settings):
    """Which trials are scored on test sets."""

    top: int = Field(strict=True, ge=1, description="how many configurations, chosen on dev")
    files: dict[str, OwnPairs] = Field(
        default={},
        exclude_if=lambda files: not files,
        description="own test sets by name; gathered from `tasks`",
    )
    tasks: tuple[str, ...] = Field(
        min_length=1,
        description="`sts`, `transfer`, `ranking`, `geometry`, `long`, single ones, or own files",
    )
    slicing_length: Annotated[int, Field(strict=True, ge=3)] | None = Field(
        default=None, description="read texts by segments of so many word pieces, as HiCL does"
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_files(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not isinstance(values.get("tasks"), (list, tuple)):
            return values
        files = dict(values.get("files") or {})
        words = [put_down("tasks", entry, files) for entry in values["tasks"]]
        return {**values, "tasks": words, **({"files": files} if files else {})}

    def with_files(self, change: Callable[[OwnPairs], OwnPairs]) -> Self:
        """The same tasks, each own file changed, e.g. to an absolute path."""
        files = {name: change(own) for name, own in self.files.items()}
        return self.model_copy(update={"files": files})

    @property
    def asked(self) -> Tasks:
        """The tasks, put together."""
        return parse_tasks(self.tasks, self.files)

    @field_validator("tasks")
    @classmethod
    def _check_known(cls, words: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        try:
            parse_tasks(words, info.data.get("files"))
        except EvaluationError as problem:
            raise ValueError(str(problem)) from None
        return words


class Keep(Settings):
    """What stays on disk when the sweep is complete."""

    models: Count | Literal["all"] = Field(
        default=10,
        description="models are kept of the trials of so many configurations, the best on dev, or "
        "`all`",
    )


class Stores(Settings):
    """Database and server URLs; None takes the environment's, else a file under `runs/`."""

    leaderboard: str | None = Field(default=None, min_length=1)
    search: str | None = Field(default=None, min_length=1)
    mlflow: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _check_distinct(self) -> Self:
        names: dict[str, str] = {}
        for name, url in self:
            if url is None:
                continue
            if (first := names.setdefault(url.rstrip("/"), name)) != name:
                text = f"the same URL as {first!r}; each store needs a database of its own"
                raise ProblemsError([Problem((name,), text)])
        return self
