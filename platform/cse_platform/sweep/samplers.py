"""Samplers as a sweep file names them: one class each, with its options and their bounds.

The options are Optuna's own, under plainer names. This module works without Optuna, which takes a
second to import; the samplers are built in `search/samplers/`.

To add a sampler, write its class here, add it to `Sampler`, and build it in
`search/samplers/build.py`. A sampler that Optuna does not have gets its own file there, with its
class and the function that makes it from these options.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, model_serializer, model_validator

from cse_methods.settings import NotNegative, Positive, Settings, WholeNumber
from cse_platform.sweep.problems import expanding_kind
from cse_platform.sweep.space.space import Space

Population = Annotated[WholeNumber, Field(ge=2)]
Switch = Annotated[bool, Field(strict=True)]
Probability = Annotated[float, Field(strict=True, ge=0, le=1)]

AUTO_GP_TRIALS = 250
"""How many trials `auto` leaves to the Gaussian process, whose cost is cubic in their number."""


class _Sampler(Settings):
    """Base of the samplers; a sampler with default options is stored as its name."""

    learns: ClassVar[bool] = True
    """Whether its proposals depend on the results of earlier trials."""
    redraws: ClassVar[int] = 10
    """How many times it is asked for a point that the method accepts."""

    @model_serializer(mode="wrap")
    def _dump_name_alone(self, dump: Callable[[Self], dict[str, Any]]) -> Any:
        options = dump(self)
        return options["kind"] if self == type(self)() else options


class Tpe(_Sampler):
    """Tree-structured Parzen estimator: proposes points that resemble good trials, not bad ones."""

    kind: Literal["tpe"] = "tpe"
    startup_trials: NotNegative = Field(default=10, description="drawn at random, to begin with")
    candidates: Positive = Field(default=24, description="points of which the best is proposed")
    joint: Switch | None = Field(
        default=None,
        description="dimensions together, or each for itself; null: together for one objective",
    )
    count_running: Switch = Field(default=True, description="keep away from running trials")


class Gp(_Sampler):
    """Gaussian process with expected improvement; running trials get fantasy values."""

    redraws = 1  # asked again, it proposes nearly the same point, for a second of time
    kind: Literal["gp"] = "gp"
    startup_trials: NotNegative = Field(default=10, description="drawn at random, to begin with")
    deterministic: Switch = Field(default=False, description="scores have no noise")


class CmaEs(_Sampler):
    """CMA-ES: samples a normal distribution whose mean and covariance adapt to better trials."""

    kind: Literal["cmaes"] = "cmaes"
    startup_trials: NotNegative = Field(default=1, description="drawn at random, to begin with")
    population: Annotated[WholeNumber, Field(ge=4)] | None = Field(
        default=None, description="trials of a generation; null takes it from the dimensions"
    )
    separable: Switch = Field(default=False, description="without correlations of dimensions")
    margin: Switch = Field(default=False, description="for whole numbers and steps")
    adapt_rate: Switch = Field(default=False, description="slower where scores are noisy")
    count_pruned: Switch = Field(default=False, description="learn from pruned trials too")

    @model_validator(mode="after")
    def _check_variant(self) -> Self:
        asked = [name for name in ("separable", "margin", "adapt_rate") if getattr(self, name)]
        if len(asked) > 1:
            raise ValueError(f"{' and '.join(asked)} exclude each other; keep one of them")
        return self


class Qmc(_Sampler):
    """Quasi-Monte Carlo: a sequence that fills the space evenly, whatever the results."""

    learns = False
    redraws = 100
    kind: Literal["qmc"] = "qmc"
    sequence: Literal["sobol", "halton"] = Field(
        default="sobol", description="sobol is best with 16, 32, 64, … trials"
    )
    scramble: Switch = Field(default=True, description="by the search seed")


class Random(_Sampler):
    """Draws each dimension independently at random."""

    learns = False
    redraws = 100
    kind: Literal["random"] = "random"


class Grid(_Sampler):
    """Tries every point of the space once."""

    learns = False
    kind: Literal["grid"] = "grid"


class _Genetic(_Sampler):
    population: Population = Field(default=50, description="trials of a generation")
    crossover_probability: Probability = Field(default=0.9, description="of mixing two parents")
    swapping_probability: Probability = Field(
        default=0.5, description="of taking a value from the other parent"
    )
    mutation_probability: Probability | None = Field(
        default=None, description="of drawing a value anew; null is 1 over their number"
    )


class NsgaII(_Genetic):
    """The genetic algorithm NSGA-II, for two or three objectives and hundreds of trials."""

    kind: Literal["nsgaii"] = "nsgaii"


class NsgaIII(_Genetic):
    """The genetic algorithm NSGA-III, for more than three objectives and hundreds of trials."""

    kind: Literal["nsgaiii"] = "nsgaiii"
    divisions: Positive = Field(default=3, description="of each axis, between reference points")


class Auto(_Sampler):
    """The sampler that suits the sweep; see `choose_sampler`."""

    kind: Literal["auto"] = "auto"


Sampler = Annotated[
    Tpe | Gp | CmaEs | Qmc | Random | Grid | NsgaII | NsgaIII | Auto,
    Discriminator("kind"),
    expanding_kind(default="tpe"),
]


def choose_sampler(sampler: Sampler, space: Space, *, trial: int, objectives: int = 1) -> Sampler:
    """Return the sampler of the trial with this number; only `auto` depends on it.

    `auto` is `gp` for the first `AUTO_GP_TRIALS` trials of a search with one objective and no
    conditions, because a Gaussian process needs the fewest trials. Otherwise it is `tpe`: a
    Gaussian process ignores conditional dimensions, is slow with many trials, and is both for
    several objectives.
    """
    if not isinstance(sampler, Auto):
        return sampler
    conditional = any(dimension.when for _, dimension in space.items())
    return Tpe() if conditional or objectives > 1 or trial >= AUTO_GP_TRIALS else Gp()
