"""What a sweep file says, checked and frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    ValidationError,
    field_validator,
    model_validator,
)

from cse_methods.contract import Corpora, MethodConfig
from cse_methods.data.dev_selection import DevSelection
from cse_methods.registry import get_method
from cse_methods.settings import Settings
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.best import (
    BestReference,
    references_in,
    replace_references,
    with_placeholders,
)
from cse_platform.sweep.evaluate import Evaluate
from cse_platform.sweep.pruners import NoPruner, Pruner
from cse_platform.sweep.reading.problems import (
    Problem,
    ProblemsError,
    format_value,
    joined_problems,
)
from cse_platform.sweep.reading.pydantic_errors import problems_in
from cse_platform.sweep.space.dimensions import Choices
from cse_platform.sweep.space.space import Space

METHOD_WIDE = ("backbone", "corpus", "data", "dev")
"""Settings of every method that stand at the top of a sweep, and so are never searched."""


def _slug(value: str) -> str:
    plain = value.replace("-", "a").replace("_", "a").replace(".", "a")
    if not (plain.isascii() and plain.isalnum() and value[0].isalnum()) or len(value) > 100:
        raise ValueError(
            "expected at most 100 letters, digits, '-', '_' and '.', the first a letter or digit, "
            f"got {format_value(value)}"
        )
    return value


def _start_point(value: Any) -> Any:
    if value != "published" and not isinstance(value, Mapping):
        raise ValueError(
            f"expected 'published' or a mapping name -> value, got {format_value(value)}"
        )
    return value


Slug = Annotated[str, Field(min_length=1), AfterValidator(_slug)]
Count = Annotated[int, Field(strict=True, ge=1)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**32)]
Share = Annotated[float, Field(strict=True, allow_inf_nan=False)]
StartPoint = Annotated[Literal["published"] | dict[str, Any], PlainValidator(_start_point)]


class Search(Settings):
    """How configurations are proposed."""

    sampler: Literal["tpe", "random", "grid"] = "tpe"
    trials: Count | None = Field(
        default=None, description="configurations to try; a grid may leave it out and try all"
    )
    seed: Seed = Field(default=42, description="of the sampler")
    start_from: tuple[StartPoint, ...] = Field(
        default=(), description="configurations tried first: `published`, or values by name"
    )

    @model_validator(mode="after")
    def _check_trials(self) -> Self:
        if self.trials is None and self.sampler != "grid":
            raise ValueError(f"sampler {self.sampler!r} needs 'trials', how many to try")
        return self


class Confirmation(Settings):
    """More seeds for the best configurations."""

    top: Count = Field(description="how many configurations")
    seeds: tuple[Seed, ...] = Field(min_length=1, description="each distinct")

    @field_validator("seeds")
    @classmethod
    def _check_distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds must be distinct, got {format_value(list(seeds))}")
        return seeds


class Seeds(Settings):
    """Which seeds trials are trained with."""

    search: Seed = Field(default=42, description="of every trial of the search")
    confirm: Confirmation | None = None


class Resources(Settings):
    """What one trial occupies; a trial runs on one device."""

    gpu: Share = Field(default=0, ge=0, le=1, description="share of a GPU")
    cpu: Share = Field(default=1, gt=0, description="CPU cores")


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


class SweepSpec(Settings):
    """One sweep: a method on a backbone, what is fixed, what is searched, and how."""

    sweep: Slug = Field(description="identity of the sweep")
    method: str = Field(min_length=1)
    backbone: str = Field(min_length=1)
    corpus: Corpora
    data: str | None = None
    dev: DevSelection = DevSelection()
    fixed: dict[str, Any] = Field(default={}, description="settings that every trial shares")
    space: Space = Field(default=Space({}), description="settings that are searched")
    search: Search
    pruner: Pruner = NoPruner()
    seeds: Seeds = Seeds()
    resources: Resources = Resources()
    evaluate: Evaluate | None = None
    stores: Stores = Stores()
    storage: str | None = Field(default=None, min_length=1, description="where checkpoints go")
    tags: tuple[Slug, ...] = Field(default=(), description="words to find its rows by")
    experiment: str = Field(default="cse", min_length=1, description="MLflow experiment")

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        if self.search.sampler != "grid":
            return self
        problems = []
        for name, dimension in self.space.items():
            try:
                dimension.grid_values()
            except ValueError as error:
                problems.append(Problem(("space", name), str(error)))
        if problems:
            raise ProblemsError(problems)
        return self

    @property
    def budget(self) -> int:
        """How many trials the search takes; of a grid at most one a point."""
        if self.search.sampler != "grid":
            return self.search.trials or 0
        points = sum(1 for _ in self.space.grid_points())
        return min(points, self.search.trials or points)

    @property
    def planned(self) -> int:
        """How many trials there will be: those of the search, and further seeds of the best."""
        confirm = self.seeds.confirm
        if confirm is None:
            return self.budget
        new = [seed for seed in confirm.seeds if seed != self.seeds.search]
        return self.budget + min(confirm.top, self.budget) * len(new)

    def config(self, assignment: Mapping[str, Any]) -> MethodConfig:
        """The method's configuration of one trial; inactive dimensions are left out.

        References to a best encoder that are not resolved yet appear as placeholders.

        Raises:
            SweepRefusedError: if the method refuses the settings together.
        """
        return self._checked(self.settings(assignment), tried=assignment)

    def config_of(self, values: Mapping[str, Any]) -> MethodConfig:
        """The configuration of a trial that has these hyperparameters, defaults included.

        Raises:
            SweepRefusedError: if the method, as it is now, refuses them.
        """
        return self._checked(self._top() | dict(values), tried=values)

    def _checked(self, settings: dict[str, Any], *, tried: Mapping[str, Any]) -> MethodConfig:
        try:
            return method_config(get_method(self.method).config, settings)
        except ValidationError as error:
            reason = joined_problems(problems_in(error, settings))
            raise SweepRefusedError(
                f"sweep {self.sweep!r} cannot try {format_value(dict(tried))}: {reason}"
            ) from None

    def settings(self, assignment: Mapping[str, Any]) -> dict[str, Any]:
        """What `config` gives to the method: top-level, fixed and active settings, JSON values."""
        active = self.space.active(assignment)
        return with_placeholders(self._top() | self.fixed | active)  # type: ignore[no-any-return]

    def _top(self) -> dict[str, Any]:
        return self.model_dump(mode="json", include=set(METHOD_WIDE))


def method_config(config: type[MethodConfig], values: Mapping[str, Any]) -> MethodConfig:
    """Validate the settings of one trial together.

    Raises:
        pydantic.ValidationError: if they are refused.
    """
    return config.model_validate(dict(values))


def best_references(spec: SweepSpec) -> list[BestReference]:
    """The references that must be resolved before the sweep starts, each once, in file order."""
    choices = [d.choices for _, d in spec.space.items() if isinstance(d, Choices)]
    places = (spec.fixed, choices, spec.search.start_from)
    return list(dict.fromkeys(reference for place in places for reference in references_in(place)))


def with_best(spec: SweepSpec, folders: Mapping[BestReference, str]) -> SweepSpec:
    """The sweep with references replaced by folders, wherever `folders` has one."""

    if not folders:
        return spec

    def folder(reference: BestReference) -> Any:
        unresolved = {"best": {"method": reference.method, "backbone": reference.backbone}}
        return folders.get(reference, unresolved)

    space = replace_references(spec.space.model_dump(mode="json"), folder)
    start_from = replace_references(spec.search.start_from, folder)
    changed = {
        "fixed": replace_references(spec.fixed, folder),
        "space": Space.model_validate(space),
        "search": spec.search.model_copy(update={"start_from": tuple(start_from)}),
    }
    return spec.model_copy(update=changed)


@dataclass(frozen=True)
class SweepFile:
    """One file: its sweeps, in the order in which they run."""

    path: Path
    stages: tuple[SweepSpec, ...]
