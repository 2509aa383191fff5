"""All facts about one trial. Scores are fractions."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from cse_platform.leaderboard.query.annotations import Annotations
from cse_platform.leaderboard.query.trials.curves import DevPoint
from cse_platform.leaderboard.query.trials.test_access import TestAccess
from cse_platform.leaderboard.row import RANKING_METRICS, Configuration, DevSets
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.tracking.events import MAIN_METRICS, TrialScore

MAIN = MAIN_METRICS | set(RANKING_METRICS)

_WHY_NO_MODEL = {
    "RUNNING": "it is not finished",
    "PRUNED": "it was pruned",
    "FAIL": "it failed",
    "COMPLETE": "its best checkpoint was not kept",
}


@dataclass(frozen=True)
class SweepPlace:
    """A sweep that holds the trial."""

    sweep: str
    number: int
    role: str


@dataclass(frozen=True)
class SweepStart:
    """One start of a sweep: the code and the machine that its trials ran with."""

    sweep: str
    started: datetime
    provenance: dict[str, str]
    packages: dict[str, str]
    """Version of every installed distribution, by name; empty where nobody recorded them."""
    diffs: dict[str, str]
    """What the code differed by from its commit: `git`, the user's repository, and `package`."""


@dataclass(frozen=True)
class TrialDetails:
    """Everything that the leaderboard knows of one trial."""

    key: str
    method: str
    revision: int
    """Of the method."""
    backbone: str
    corpus: str
    configuration: Configuration
    seed: int
    dev: DevSets
    state: str
    error: str | None
    started: datetime
    finished: datetime | None
    wall_seconds: float | None
    costs: dict[str, float]
    """What else it took, by name as in `COSTS`, and `epochs`; what is unknown is left out."""
    gpu_hours: float
    machine: str | None
    """Host and hardware."""
    best_step: int | None
    best_value: float | None
    untrained: float | None
    """The dev score at step 0."""
    model: str | None
    """Place of the best checkpoint."""
    model_deleted: datetime | None
    """When the sweep deleted it; None where it did not."""
    provenance: dict[str, str]
    """Of the worker."""
    sweeps: tuple[SweepPlace, ...]
    """In the order in which they were first started."""
    tags: tuple[str, ...]
    """Its own, of its configuration and of its sweeps."""
    written: Annotations
    """About this trial."""
    of_configuration: Annotations
    """About its configuration."""
    starts: tuple[SweepStart, ...]
    """Of the sweep that ran it: the last at or before its own start, then those before its end:
    it was cut off, and went on. Empty where no start is known."""
    spec: dict[str, Any]
    """The sweep file, as JSON, of the sweep that ran it."""
    curve: tuple[DevPoint, ...]
    scores: tuple[TrialScore, ...]
    """On dev at the best step, and on test."""
    test_accesses: tuple[TestAccess, ...]
    """When test sets were opened for this trial."""
    siblings: tuple[TrialSummary, ...]
    """The same configuration with other seeds, by seed."""

    @property
    def imported_from(self) -> str | None:
        """Where it was logged, by another program; None for a trial of our own."""
        return self.starts[0].provenance.get("imported_from") if self.starts else None

    @property
    def why_no_model(self) -> str:
        """Why `model` is None, in a few words."""
        if self.imported_from is not None:
            return "it was imported, without its model"
        if self.model_deleted is not None:
            day = f"{self.model_deleted:%Y-%m-%d}"
            return (
                f"it was deleted on {day}, because its sweep keeps those of the best trials alone"
            )
        return _WHY_NO_MODEL[self.state]

    @property
    def again(self) -> str:
        """What reproducing it gives, in a few words."""
        if self.imported_from is not None:
            return "a sweep file of what is known of it, for a trial of another key"
        return "what trains it again"

    @property
    def can_come_out_again(self) -> bool:
        """Whether there is a dev value that running it again should give."""
        return self.state == "COMPLETE" and self.imported_from is None

    @property
    def main_scores(self) -> tuple[TrialScore, ...]:
        """The scores that tables of papers have: Spearman's rho, accuracy, KCC, NDCG."""
        return tuple(score for score in self.scores if score.metric in MAIN)

    @property
    def complete_values(self) -> dict[int, float]:
        """The dev value of each complete seed of the configuration, this one's among them."""
        values = {one.seed: one.value for one in self.siblings if one.state == "COMPLETE"}
        if self.state == "COMPLETE":
            values[self.seed] = self.best_value
        return {seed: value for seed, value in sorted(values.items()) if value is not None}

    def as_record(self) -> dict[str, Any]:
        """What `cse-leaderboard show --json` prints."""
        names = {"test_accesses": "openings"}
        fields = {names.get(name, name): value for name, value in asdict(self).items()}
        siblings = [
            {name: getattr(one, name) for name in ("key", "seed", "value", "state")}
            for one in self.siblings
        ]
        return fields | {"scores": [one.model_dump() for one in self.scores], "siblings": siblings}
