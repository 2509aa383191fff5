"""Samplers as a sweep file names them: one class each, with its options and their bounds.

The options are Optuna's own, under plainer names. This module works without Optuna, which takes a
second to import; the samplers are built in `search/samplers/`.

To add a sampler, write its class here, add it to `Sampler`, and build it in
`search/samplers/build.py`. A sampler that Optuna does not have gets its own file there, with its
class and the function that makes it from these options.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, model_serializer

from cse_methods.settings import NotNegative, Settings
from cse_platform.sweep.problems import expanding_kind


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


class Gp(_Sampler):
    """Gaussian process with expected improvement; running trials get fantasy values."""

    redraws = 1  # asked again, it proposes nearly the same point, for a second of time
    kind: Literal["gp"] = "gp"
    startup_trials: NotNegative = Field(default=10, description="drawn at random, to begin with")


class CmaEs(_Sampler):
    """CMA-ES: samples a normal distribution whose mean and covariance adapt to better trials."""

    kind: Literal["cmaes"] = "cmaes"


class Qmc(_Sampler):
    """A scrambled Sobol sequence, which fills the space evenly, whatever the results.

    It is best with 16, 32, 64, … trials.
    """

    learns = False
    redraws = 100
    kind: Literal["qmc"] = "qmc"


class Random(_Sampler):
    """Draws each dimension independently at random."""

    learns = False
    redraws = 100
    kind: Literal["random"] = "random"


class Grid(_Sampler):
    """Tries every point of the space once."""

    learns = False
    kind: Literal["grid"] = "grid"


class Auto(_Sampler):
    """The sampler that suits the sweep; see `choose_sampler` in `search/samplers/build.py`."""

    kind: Literal["auto"] = "auto"


Sampler = Annotated[
    Tpe | Gp | CmaEs | Qmc | Random | Grid | Auto,
    Discriminator("kind"),
    expanding_kind(default="tpe"),
]
