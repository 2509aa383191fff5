"""The port between methods and platform: a method offers `Method`, the platform offers `Run`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cse_methods.config import MethodConfig

BEST_FOLDER = "best"
"""The folder of the best encoder inside a checkpoint, in sentence-transformers layout."""


class Run(Protocol):
    """A `Run` gives a method its seed, a checkpoint to resume from, and a place to report to."""

    seed: int
    resume_from: Path | None
    """A complete checkpoint of this same trial; None starts from the beginning."""

    def report(
        self, *, step: int, metrics: Mapping[str, float], save: Callable[[Path], None] | None = None
    ) -> None:
        """Publish one dev point. The call may never return, because a trial can be stopped here.

        Args:
            step: optimiser steps done.
            metrics: one number a name; correlations are fractions. Names begin with `dev/`,
                `train/` or `perf/`; others are not recorded.
            save: writes a checkpoint into the folder it is given, during the call. The encoder of
                the trained step with the best dev score so far goes into its folder `BEST_FOLDER`;
                without it, the trial's model cannot be kept or scored. A `LateSave` is not written
                at every dev point, nor always during the call.

        Raises:
            ValueError: names the step or the metric that is no number.
            RuntimeError: if the trial has ended, as in a thread that its method has left behind.
        """


@runtime_checkable
class LateSave(Protocol):
    """A `save` of `Run.report` that can also be written later, while training goes on.

    The trial need not be able to go on from each of its dev points then, but has to be from the
    last one.
    """

    @property
    def last(self) -> bool:
        """Whether the trial ends with this dev point."""

    def __call__(self, folder: Path, /) -> None:
        """Write a checkpoint into a folder."""

    def copied(self) -> Callable[[Path], None]:
        """Copy what a checkpoint holds; what is returned writes the copy, in any thread."""


@dataclass(frozen=True)
class Paper:
    """Where a method comes from."""

    title: str
    url: str
    year: int


@dataclass(frozen=True)
class PublishedSettings:
    """One column of a paper's hyperparameter table."""

    backbone: str
    settings: Mapping[str, Any]
    source: str
    variant: Mapping[str, Any] = field(default_factory=dict)
    """What sets this column apart from its neighbours, e.g. {"rank_loss": "listnet"}."""
    searched: Mapping[str, Any] = field(default_factory=dict)
    """The space the paper searched: choices as a tuple, or a range as {"low": …, "high": …}."""
    note: str = ""
    """What the settings are if they are not the authors' whole setup; a sentence."""


@dataclass(frozen=True)
class Method:
    """One paper's way to train, as the platform sees it."""

    name: str
    config: type[MethodConfig]
    paper: Paper
    revision: int
    """Raised when the method's numbers change."""
    train: Callable[[Any, Run], dict[str, float]]
    """(config, run) -> the dev scores of the best checkpoint."""
    published: tuple[PublishedSettings, ...] = ()
    build: Callable[..., Any] | None = None
    """(config, corpus, student) -> the objective that the training loop trains; None for a method
    that trains in a way of its own."""

    def specialise_for(self, possible: Mapping[str, Sequence[Any]]) -> "Method":
        """Return the method with the settings that it has where some have these possible values."""
        return replace(self, config=self.config.specialise_for(possible))
