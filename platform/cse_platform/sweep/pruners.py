"""Pruners as a sweep file names them: one class each, with its options and their bounds.

Where Optuna has the pruner, the options are its own, under plainer names. All steps are optimiser
steps. Pruners compare the values of the checkpoints that trials would keep
(`search/pruners/build.py`, which needs Optuna).

To add a pruner, write its class here, add it to `Pruner`, and build it there. A pruner that Optuna
does not have gets its own file there.
"""

from typing import Annotated, Literal

from pydantic import Discriminator, Field

from cse_methods.settings import NotNegative, Positive, Settings, WholeNumber
from cse_platform.sweep.problems import expanding_kind

Factor = Annotated[WholeNumber, Field(ge=2)]


class _Pruner(Settings):
    min_step: Positive = Field(default=1, description="no trial is stopped before this step")


class NoPruner(_Pruner):
    """Stops no trial."""

    kind: Literal["none"] = "none"
    min_step: Positive = Field(default=1, description="without effect; so `kind` can be changed")


class MedianPruner(_Pruner):
    """Stops a trial that is below the median of the others at the same step."""

    kind: Literal["median"]
    startup_trials: NotNegative = Field(default=5, description="trials that are never stopped")


class ThresholdPruner(_Pruner):
    """Stops a trial whose best dev score so far is below a value."""

    kind: Literal["threshold"]
    lower: Annotated[float, Field(ge=-1, le=1)] = Field(
        description="the lowest dev score that goes on, a fraction"
    )


class SuccessiveHalvingPruner(_Pruner):
    """Lets only the best trials pass each rung; the distance of rungs grows geometrically."""

    kind: Literal["successive_halving"]
    min_step: Positive = Field(default=1, description="the first rung, in optimiser steps")
    reduction_factor: Factor = Field(default=4, description="one trial in so many passes a rung")


class HyperbandPruner(_Pruner):
    """Runs several successive halvings in parallel, which differ in how early they stop trials."""

    kind: Literal["hyperband"]
    min_step: Positive = Field(default=1, description="the first rung, in optimiser steps")
    max_step: Positive | None = Field(
        default=None, description="the last rung; null takes the first complete trial's"
    )
    reduction_factor: Factor = Field(default=3, description="one trial in so many passes a rung")


class CurvePruner(_Pruner):
    """Stops a trial that is unlikely to be among the best, judging by earlier learning curves.

    The best are as many as `seeds.confirm` gives further seeds, or one.
    """

    kind: Literal["curve"]
    chance: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.05, description="the share of the best trials that may be lost by it"
    )
    startup_trials: Positive = Field(
        default=5, description="complete curves, of other sweeps too, that must have come as far"
    )


class PatientPruner(_Pruner):
    """Stops a trial that has not improved for some dev points."""

    kind: Literal["patient"]
    patience: Positive = Field(default=3, description="dev points without a rise that it waits")
    min_rise: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="what counts as a rise is more than this, a fraction"
    )


Pruner = Annotated[
    NoPruner
    | MedianPruner
    | ThresholdPruner
    | SuccessiveHalvingPruner
    | HyperbandPruner
    | PatientPruner
    | CurvePruner,
    Discriminator("kind"),
    expanding_kind(default="none"),
]
