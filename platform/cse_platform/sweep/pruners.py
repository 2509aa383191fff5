"""When a trial is stopped early. The options are Optuna's own, by plainer names."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from cse_methods.settings import Settings

NotNegative = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Factor = Annotated[int, Field(strict=True, ge=2)]


class NoPruner(Settings):
    """Every trial runs to its end."""

    kind: Literal["none"] = "none"
    min_step: Positive = Field(default=1, description="without effect; so `kind` can be changed")


class MedianPruner(Settings):
    """Stops a trial that is below the median of the others at the same step."""

    kind: Literal["median"]
    min_step: Positive = Field(default=1, description="no trial is stopped before this step")
    startup_trials: NotNegative = Field(default=5, description="trials that are never stopped")
    interval_steps: Positive = Field(default=1, description="optimiser steps between two looks")
    min_trials: Positive = Field(default=1, description="trials that must have reached the step")


class SuccessiveHalvingPruner(Settings):
    """Lets the best share of the trials pass each rung; rungs lie ever further apart."""

    kind: Literal["successive_halving"]
    min_step: Positive = Field(default=1, description="the first rung, in optimiser steps")
    reduction_factor: Factor = Field(default=4, description="one trial in so many passes a rung")
    min_early_stopping_rate: NotNegative = Field(0, description="rungs left out at the start")
    bootstrap_trials: NotNegative = Field(0, description="trials a rung sees before any may pass")


class HyperbandPruner(Settings):
    """Several successive halvings side by side, that differ in how early they stop."""

    kind: Literal["hyperband"]
    min_step: Positive = Field(default=1, description="the first rung, in optimiser steps")
    max_step: Positive | None = Field(
        default=None, description="the last rung; null takes the longest finished trial's"
    )
    reduction_factor: Factor = Field(default=3, description="one trial in so many passes a rung")


_KINDS = {
    "none": NoPruner,
    "median": MedianPruner,
    "successive_halving": SuccessiveHalvingPruner,
    "hyperband": HyperbandPruner,
}


def _kind(value: Any) -> str | None:
    if not isinstance(value, dict):
        return type(value).__name__
    kind = value.get("kind", "none")
    return _KINDS[kind].__name__ if isinstance(kind, str) and kind in _KINDS else None


Pruner = Annotated[
    Annotated[NoPruner, Tag("NoPruner")]
    | Annotated[MedianPruner, Tag("MedianPruner")]
    | Annotated[SuccessiveHalvingPruner, Tag("SuccessiveHalvingPruner")]
    | Annotated[HyperbandPruner, Tag("HyperbandPruner")],
    Discriminator(
        _kind,
        custom_error_type="expected",
        custom_error_message="{what}",
        custom_error_context={"what": "{kind: none, median, successive_halving or hyperband}"},
    ),
]
