"""When a trial is stopped early. Where Optuna has a pruner, the options are its own, plainer named.

All steps are optimiser steps. What is compared is what a trial would keep: see `search/pruning.py`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from cse_methods.settings import Settings
from cse_platform.sweep.reading.problems import Problem, ProblemsError, did_you_mean, format_value

NotNegative = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Factor = Annotated[int, Field(strict=True, ge=2)]


class _Pruner(Settings):
    """A pruner by its `kind`. A file may write the name alone."""

    min_step: Positive = Field(default=1, description="no trial is stopped before this step")

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


class NoPruner(_Pruner):
    """Every trial runs to its end."""

    kind: Literal["none"] = "none"
    min_step: Positive = Field(default=1, description="without effect; so `kind` can be changed")


class PercentilePruner(_Pruner):
    """Stops a trial that is not in the best share of the others at the same step."""

    kind: Literal["percentile"]
    percentile: Annotated[float, Field(ge=0, le=100)] = Field(
        default=25.0, description="the best share of the trials, which goes on, in percent"
    )
    startup_trials: NotNegative = Field(default=5, description="trials that are never stopped")
    interval_steps: Positive = Field(default=1, description="optimiser steps between two looks")
    min_trials: Positive = Field(default=1, description="trials that must have reached the step")


class MedianPruner(_Pruner):
    """Stops a trial that is below the median of the others at the same step."""

    kind: Literal["median"]
    startup_trials: NotNegative = Field(default=5, description="trials that are never stopped")
    interval_steps: Positive = Field(default=1, description="optimiser steps between two looks")
    min_trials: Positive = Field(default=1, description="trials that must have reached the step")


class ThresholdPruner(_Pruner):
    """Stops a trial whose best dev score so far is below a value."""

    kind: Literal["threshold"]
    lower: Annotated[float, Field(ge=-1, le=1)] = Field(
        description="the lowest dev score that goes on, a fraction"
    )
    interval_steps: Positive = Field(default=1, description="optimiser steps between two looks")


class SuccessiveHalvingPruner(_Pruner):
    """Lets the best share of the trials pass each rung; rungs lie ever further apart."""

    kind: Literal["successive_halving"]
    min_step: Positive = Field(default=1, description="the first rung, in optimiser steps")
    reduction_factor: Factor = Field(default=4, description="one trial in so many passes a rung")
    min_early_stopping_rate: NotNegative = Field(0, description="rungs left out at the start")
    bootstrap_trials: NotNegative = Field(0, description="trials a rung sees before any may pass")


class HyperbandPruner(_Pruner):
    """Several successive halvings side by side, that differ in how early they stop."""

    kind: Literal["hyperband"]
    min_step: Positive = Field(default=1, description="the first rung, in optimiser steps")
    max_step: Positive | None = Field(
        default=None, description="the last rung; null takes the longest finished trial's"
    )
    reduction_factor: Factor = Field(default=3, description="one trial in so many passes a rung")


class CurvePruner(_Pruner):
    """Stops a trial that can no longer come among the best, as earlier curves of its kind tell."""

    kind: Literal["curve"]
    chance: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.05, description="the share of the best trials that may be lost by it"
    )
    startup_trials: Positive = Field(
        default=5, description="complete curves, of other sweeps too, that must have come as far"
    )
    top: Positive | None = Field(
        default=None,
        description="so many best are looked for; null: `seeds.confirm.top`, or 1",
    )


Kinds = dict[str, type[_Pruner]]

_INNER: Kinds = {
    "median": MedianPruner,
    "percentile": PercentilePruner,
    "threshold": ThresholdPruner,
    "successive_halving": SuccessiveHalvingPruner,
    "hyperband": HyperbandPruner,
}


def _kind_among(kinds: Kinds) -> Callable[[Any], str | None]:
    """Names the class that a value is for; None if it is for none of these."""

    def kind_of(value: Any) -> str | None:
        if isinstance(value, _Pruner):
            return type(value).__name__
        kind = value.get("kind", "none") if isinstance(value, dict) else value
        return kinds[kind].__name__ if isinstance(kind, str) and kind in kinds else None

    return kind_of


def _refusing_others(kinds: Kinds) -> BeforeValidator:
    kind_of = _kind_among(kinds)

    def refuse_others(value: Any) -> Any:
        if kind_of(value) is None:
            place = ("kind",) if isinstance(value, dict) and "kind" in value else ()
            kind = value["kind"] if place else value
            hint = did_you_mean(kind, kinds) if isinstance(kind, str) else ""
            *first, last = kinds
            text = f"expected {', '.join(first)} or {last}, got {format_value(kind)}{hint}"
            raise ProblemsError([Problem(place, text)])
        return value

    return BeforeValidator(refuse_others)


class PatientPruner(_Pruner):
    """Stops a trial that came no higher for some dev points, or asks another pruner then."""

    kind: Literal["patient"]
    patience: Positive = Field(default=3, description="dev points without a rise that it waits")
    min_rise: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="what counts as a rise is more than this, a fraction"
    )
    pruner: (
        Annotated[
            Annotated[MedianPruner, Tag("MedianPruner")]
            | Annotated[PercentilePruner, Tag("PercentilePruner")]
            | Annotated[ThresholdPruner, Tag("ThresholdPruner")]
            | Annotated[SuccessiveHalvingPruner, Tag("SuccessiveHalvingPruner")]
            | Annotated[HyperbandPruner, Tag("HyperbandPruner")],
            Discriminator(_kind_among(_INNER)),
            _refusing_others(_INNER),
        ]
        | None
    ) = Field(default=None, description="the pruner that decides then; null stops the trial")


_KINDS: Kinds = {
    "none": NoPruner,
    **_INNER,
    "patient": PatientPruner,
    "curve": CurvePruner,
}


Pruner = Annotated[
    Annotated[NoPruner, Tag("NoPruner")]
    | Annotated[MedianPruner, Tag("MedianPruner")]
    | Annotated[PercentilePruner, Tag("PercentilePruner")]
    | Annotated[ThresholdPruner, Tag("ThresholdPruner")]
    | Annotated[SuccessiveHalvingPruner, Tag("SuccessiveHalvingPruner")]
    | Annotated[HyperbandPruner, Tag("HyperbandPruner")]
    | Annotated[PatientPruner, Tag("PatientPruner")]
    | Annotated[CurvePruner, Tag("CurvePruner")],
    Discriminator(_kind_among(_KINDS)),
    _refusing_others(_KINDS),
]
