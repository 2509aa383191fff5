"""The block `search:` of a sweep file: how configurations are proposed, and when that ends."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    PlainValidator,
    field_validator,
    model_validator,
)

from cse_methods.settings import Settings
from cse_platform.sweep.blocks import Count, Seed, Slug
from cse_platform.sweep.budget import Budget
from cse_platform.sweep.objectives import Constraint, ConstraintText, Direction, SearchObjective
from cse_platform.sweep.reading.problems import did_you_mean, format_value
from cse_platform.sweep.samplers import Sampler, Tpe


def _start_point(value: Any) -> Any:
    words = ("published", "leaderboard")
    if value not in words and not isinstance(value, Mapping):
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        raise ValueError(
            "expected 'published', 'leaderboard' or a mapping name -> value, got "
            f"{format_value(value)}{hint}"
        )
    return value


StartPoint = Annotated[
    Literal["published", "leaderboard"] | dict[str, Any], PlainValidator(_start_point)
]


GIVE_UP_AFTER = 3
"""Failures of one cause that are no accident any more."""


class Search(Settings):
    """How configurations are proposed."""

    sampler: Sampler = Tpe()
    trials: Count | None = Field(
        default=None,
        description="configurations to try; a grid may leave it out and try all, and so may a "
        "search with another budget",
    )
    budget: Budget | None = Field(
        default=None,
        exclude_if=lambda budget: budget is None,  # as in the journals of older versions
        description="what else ends the search: `time`, `gpu_hours`, `improvement`",
    )
    seed: Seed = Field(default=42, description="of the sampler")
    start_from: tuple[StartPoint, ...] = Field(
        default=(),
        description="configurations tried first: `published`, `leaderboard`, or values by name",
    )
    learn_from: tuple[Slug, ...] = Field(
        default=(),
        exclude_if=lambda sweeps: not sweeps,  # as in the journals of older versions
        description="sweeps of the same method whose trials the sampler gets to know",
    )
    objectives: tuple[SearchObjective, ...] = Field(
        default=(),
        exclude_if=lambda objectives: not objectives,
        description="several at once; left out, what `dev.search` names is the only one",
    )
    constraints: tuple[ConstraintText, ...] = Field(
        default=(),
        exclude_if=lambda constraints: not constraints,
        description="on what a trial measured, such as `uniformity <= -1.5`",
    )
    give_up_after: Count = Field(
        default=GIVE_UP_AFTER,
        exclude_if=lambda count: count == GIVE_UP_AFTER,  # as in the journals of older versions
        description="stop where so many trials have failed alike and no other has ended",
    )

    @property
    def directions(self) -> tuple[Direction, ...]:
        """In which direction each objective is better; a dev score is the higher, the better."""
        return tuple(one.direction for one in self.objectives) or ("maximize",)

    @property
    def measured(self) -> tuple[str, ...]:
        """What objectives and constraints are about, by their names, each once."""
        bounded = (Constraint.parse(text).name for text in self.constraints)
        return tuple(dict.fromkeys((*(one.name for one in self.objectives), *bounded)))

    @field_validator("objectives")
    @classmethod
    def _check_several(cls, objectives: tuple[SearchObjective, ...]) -> tuple[SearchObjective, ...]:
        if len(objectives) == 1:
            raise ValueError(
                f"one objective, {objectives[0].name!r}, is not a choice between several; leave it "
                "out and write dev: {search: …} for what the search is to climb, or name two"
            )
        return objectives

    @model_validator(mode="after")
    def _check_sampler(self) -> Self:
        if self.sampler.kind == "cmaes" and self.objectives:
            raise ValueError(
                "sampler 'cmaes' climbs one objective; for several take 'tpe', 'gp', 'nsgaii' or "
                "'nsgaiii'"
            )
        return self

    @model_validator(mode="after")
    def _check_trials(self) -> Self:
        if self.trials is None and self.budget is None and self.sampler.kind != "grid":
            raise ValueError(
                f"sampler {self.sampler.kind!r} needs 'trials', how many to try, or 'budget'"
            )
        return self
