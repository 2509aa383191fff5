"""One trial, as every list of trials shows it. Scores are fractions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class TrialSummary:
    """A trial and its place in a sweep."""

    number: int
    """In the sweep."""
    key: str
    state: str
    """RUNNING, COMPLETE, PRUNED or FAIL."""
    seed: int
    role: str
    """`search`; `confirm` and `repeat` are further seeds of what the search has tried."""
    configuration: str
    """Its hash: equal for all seeds."""
    values: dict[str, Any]
    """The searched hyperparameters that took part."""
    value: float | None
    """The dev score of the best checkpoint. For a pruned trial, the best until it was stopped; for
    a running one, the last that was reported, where the query asks for it."""
    step: int | None
    """The step that `value` is of."""
    started: datetime
    finished: datetime | None
    sweep: str
    """The sweep that `number` and `role` are of; where none was asked for, the first."""
    method: str
    backbone: str
    model: str | None = None
    """Folder of the best checkpoint."""
    error: str | None = None
    weight: float = 1.0
    """How many trials of the sweep it stands for: more than 1 where it is one of a sample."""
