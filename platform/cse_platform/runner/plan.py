"""A trial as the driver hands it to Ray."""

from dataclasses import dataclass
from typing import Any

from cse_platform.tracking.events import Role


@dataclass(frozen=True)
class TrialPlan:
    """One configuration with one seed, to be run from the start or from a checkpoint."""

    key: str
    number: int
    role: Role
    search_number: int | None
    seed: int
    configuration: str
    values: dict[str, Any]
    """All hyperparameters, defaults included."""
    searched: tuple[str, ...]
    """The names among `values` that the search has chosen."""
    settings: dict[str, Any]
    """The method's whole configuration, as JSON values."""
    resumed_from: int | None = None
    """The step it goes on from; None for a trial that was never started."""
    checkpoint: str | None = None
    """Where the whole checkpoint of that step lies; None starts over."""

    def param_space(self) -> dict[str, Any]:
        """What the trainable is called with."""
        return {**self.settings, "seed": self.seed, "resume_from": self.checkpoint}
