"""The events of the journal: everything that happened in a sweep, one event a line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from cse_methods.settings import Settings

TrialState = Literal["COMPLETE", "PRUNED", "FAIL"]
SweepAction = Literal["stop", "pause", "resume", "retry", "enqueue"]
Role = Literal["search", "confirm", "repeat"]
MessageLevel = Literal["note", "warning", "error"]
FailureCause = Literal["trial", "person", "refusal", "machine"]
"""What a trial failed of: its configuration, for it raised an error, diverged or took too long; a
person who stopped it; the method or the sweep that refuses to go on with it; the end of its
process. Only the first says something of the configuration."""
Annotatable = Literal["trial", "configuration", "sweep"]
"""What people can write notes, tags and stars about."""

MAIN_METRICS = frozenset({"spearman", "accuracy"})
"""The metrics on test that papers report; each task has one of the two."""

MODEL_DIGITS = 16
"""Digits of a trial's key in the name of its model's folder."""

IMPORTED = "imported"
"""The source of dev and test sets whose checksums are not known: those of imported trials."""


def now() -> datetime:
    return datetime.now(UTC)


class Recorded(Settings):
    """Base of the events. Unlike a setting, a measured number may be NaN or infinite."""

    model_config = ConfigDict(allow_inf_nan=True)


class SweepEvent(Recorded):
    """Base of the events; a trial's are those of the sweep that holds it."""

    kind: str
    time: datetime = Field(default_factory=now)
    sweep: str


class TrialEvent(SweepEvent):
    trial: str
    """The trial's key: sha256 of all that its numbers follow from."""


class LearnedTrial(Recorded):
    """A configuration of another sweep that the sampler of this one learns from."""

    source: str
    """SWEEP#NUMBER."""
    values: dict[str, Any]
    """Of the dimensions of this sweep's space, as it samples them."""
    value: float
    """Its mean dev score there, a fraction."""
    score: float
    """By how many standard deviations that is above the mean of its sweep."""
    alike: bool
    """Whether it would be the same here: then its value is taken as it is."""


class SweepStarted(SweepEvent):
    """A sweep begins, or begins again after an interruption or with a larger budget."""

    kind: Literal["sweep_started"] = "sweep_started"
    method: str
    backbone: str
    spec: dict[str, Any]
    """The checked sweep file, as JSON."""
    best: dict[str, str] = Field(default_factory=dict)
    """The folder that each reference to a best encoder stands for, by its placeholder."""
    leaders: dict[str, dict[str, Any]] | None = None
    """What `start_from: [leaderboard]` stands for, since it was first asked for; None before. All
    hyperparameters of each configuration, by where it was found."""
    learned: tuple[LearnedTrial, ...] | None = None
    """What the sampler learns from the sweeps of `learn_from`. None in older journals."""
    content: dict[str, Any] = Field(default_factory=dict)
    """What the numbers of all its trials follow from: revision and hashes, by name. It is empty in
    older journals."""
    environment: str | None = None
    """Hash of what a failure can come from: content, packages, and what the file says of a trial.
    None in older journals."""
    provenance: dict[str, str]
    """Git commit, dirty or not, command line, host, versions."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Version of every installed distribution, by name."""
    diffs: dict[str, str] = Field(default_factory=dict)
    """What the code differed by from its commit: `git`, the user's repository, and `package`."""


class DriverMessage(SweepEvent):
    """The driver has said something to whoever follows the sweep."""

    kind: Literal["driver_message"] = "driver_message"
    level: MessageLevel
    """An error has ended the start of the sweep that it was said in."""
    text: str


class SweepRequested(SweepEvent):
    """A person has asked something of the sweep from elsewhere, and the driver has heard it."""

    kind: Literal["sweep_requested"] = "sweep_requested"
    request: str
    """Its identity: a request that is heard twice counts once."""
    action: SweepAction
    who: str
    trials: int | None = None
    """Of resume: how many trials the search takes from now on, if that is more than before."""
    numbers: tuple[int, ...] = ()
    """Of stop and retry: which trials; none stands for the sweep, and for all that failed."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Of enqueue: values of dimensions, as the space samples them."""

    def with_budget(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the checked sweep file, as JSON, with the requested budget."""
        return {**spec, "search": {**spec.get("search", {}), "trials": self.trials}}


@dataclass(frozen=True)
class AnnotationChange:
    """One note, tag or star that is written or taken away."""

    field: Literal["note", "star", "tag"]
    stands: bool
    """Whether it is there from then on."""
    word: str = ""
    """The tag."""
    text: str = ""
    """Of the note."""


class AnnotationWritten(SweepEvent):
    """A person has written about a trial, a configuration or a sweep; `sweep` is one that has it.

    These events have a journal of their own, and stay where the stores are filled anew.
    """

    kind: Literal["annotation_written"] = "annotation_written"
    about: Annotatable
    name: str
    """The trial's key, the configuration's hash, the sweep's name."""
    who: str
    note: str | None = None
    """In place of the one before; an empty one takes it away."""
    star: bool | None = None
    tags: dict[str, bool] = Field(default_factory=dict)
    """Each word, and whether it is there from then on."""

    @property
    def changes(self) -> Iterator[AnnotationChange]:
        """Yield the changes one by one."""
        if self.note is not None:
            yield AnnotationChange("note", bool(self.note), text=self.note)
        if self.star is not None:
            yield AnnotationChange("star", self.star)
        for word, stands in self.tags.items():
            yield AnnotationChange("tag", stands, word=word)


class TrialStarted(TrialEvent):
    """A trial begins or, with `resumed_from`, goes on from a checkpoint."""

    kind: Literal["trial_started"] = "trial_started"
    number: int
    """Place of the trial in its sweep, from 0."""
    role: Role
    search_number: int | None
    """The Optuna trial that proposed it, which a repeat closes; None for confirmations."""
    seed: int
    method: str
    revision: int
    backbone: str
    configuration: str
    """Hash of the configuration: the key without the seed."""
    code: str | None = None
    """Hash of the method's code; None where it is not known, as in older journals."""
    values: dict[str, Any]
    """All hyperparameters, defaults included, inactive ones left out."""
    searched: tuple[str, ...]
    """The names among `values` that the sweep's space varies."""
    dev: dict[str, str]
    """checkpoint, search: dev sets; identity: hash of them and their data; source: builtin, hub
    or senteval; corpus: name."""
    resumed_from: int | None = None
    """Optimiser step of the checkpoint."""
    averages: tuple[str, ...] = Field(default=(), exclude_if=lambda averaged: not averaged)
    """The keys of the trials whose weights it averages, of one configuration; none for a trial that
    is trained. An average has a configuration of its own, so that it is no seed of theirs."""


class TrialPoint(TrialEvent):
    kind: Literal["trial_point"] = "trial_point"
    step: int
    value: float
    """The dev score that the search climbs, a fraction."""
    metrics: dict[str, float]
    """Everything reported: dev/..., train/..., perf/..."""
    checkpoint: str | None = None
    """Where the checkpoint of this step lies, whole."""


class TrialCheckpoint(TrialEvent):
    """A checkpoint is whole by now whose dev point was reported before."""

    kind: Literal["trial_checkpoint"] = "trial_checkpoint"
    step: int
    checkpoint: str
    """Where it lies."""


class TrialFinished(TrialEvent):
    kind: Literal["trial_finished"] = "trial_finished"
    state: TrialState
    best_step: int | None
    """Step of the kept checkpoint; None when nothing was reported."""
    best_value: float | None
    """The search's dev score at `best_step`, a fraction."""
    best_metrics: dict[str, float] = Field(default_factory=dict)
    """All metrics of `best_step`."""
    model: str | None = None
    """Folder of the best checkpoint, in the sentence-transformers format."""
    error: str | None = None
    """One line, for FAIL."""
    cause: FailureCause | None = None
    """Of a FAIL. None in older journals."""
    why: str | None = None
    """One line, for PRUNED: why it was stopped. None in older journals."""
    wall_seconds: float | None = None
    gpus: float = 0.0
    """Its share of a GPU."""
    costs: dict[str, float] = Field(default_factory=dict)
    """What it took beside that, as `TrialCosts.totals`; what is unknown is left out."""
    provenance: dict[str, str] = Field(default_factory=dict)
    """Of the worker: versions, CPU or GPU, attention kernel, dtype, threads, peak memory."""


class ModelDeleted(TrialEvent):
    """A sweep has deleted a trial's kept model, because others are better (`keep: {models: …}`)."""

    kind: Literal["model_deleted"] = "model_deleted"


class TrialReused(TrialEvent):
    """A sweep takes over a trial that another sweep has completed."""

    kind: Literal["trial_reused"] = "trial_reused"
    reused_from: str | None = None
    """The sweep that completed it; None in older journals."""
    number: int
    role: Role
    search_number: int | None
    seed: int
    configuration: str
    code: str | None = None
    values: dict[str, Any]
    searched: tuple[str, ...]
    curve: dict[int, float]
    """The search's dev score by step."""
    best_step: int
    best_value: float
    best_metrics: dict[str, float] = Field(default_factory=dict)
    """As of `TrialFinished`, and so are the next two; unknown in older journals."""
    wall_seconds: float | None = None
    gpus: float = 0.0
    model: str | None


class TestAccessed(TrialEvent):
    """Test sets are about to be opened for a trial; whatever comes of it, they were."""

    kind: Literal["tests_opened"] = "tests_opened"
    tasks: tuple[str, ...]
    source: Literal["builtin", "hub", "senteval"]
    """Of the test sets, whatever the trial's own data."""
    who: str
    command: Literal["cse-sweep", "cse-evaluate", "cse-leaderboard"]


class TrialScore(Recorded):
    """One number on one task."""

    task: str
    split: Literal["dev", "test"]
    metric: str
    value: float
    """A fraction, where the metric is a correlation or an accuracy."""
    identity: str
    """Hash of all that makes the number comparable."""


class PairSimilarities(Recorded):
    """The cosine of every pair of one task, packed as `cse_platform.tracking.packing` does."""

    task: str
    split: Literal["dev", "test"]
    identity: str
    cosines: str
    """float32."""
    gold: str
    """float64."""
    subsets: dict[str, int]
    """Pairs of each subset, in order."""
    data_sha256: str


class TrialEvaluated(TrialEvent):
    """A trial's kept checkpoint has been scored."""

    kind: Literal["trial_evaluated"] = "trial_evaluated"
    tasks: tuple[str, ...]
    """Everything that was asked for, whether it has a score or not: single tasks, `ranking`,
    `geometry`."""
    settings: str = ""
    """The settings of a sweep's evaluation; an evaluation with others is another one."""
    source: str | None = None
    """Of the test data: builtin, hub, senteval or imported; None in older journals."""
    scores: tuple[TrialScore, ...]
    similarities: tuple[PairSimilarities, ...]
    identities: dict[str, dict[str, Any]]
    """What each identity is the hash of."""
    seconds: dict[str, float]
    """`encoding`, and each task's own time."""


class SearchEnded(SweepEvent):
    """A search proposes no more trials: another budget than their number is spent."""

    kind: Literal["search_ended"] = "search_ended"
    budget: str
    """Which one, in words."""


class SweepFinished(SweepEvent):
    """A sweep has spent its budget, or was interrupted."""

    kind: Literal["sweep_finished"] = "sweep_finished"
    state: Literal["COMPLETE", "INTERRUPTED"]
    why: str | None = None
    """What all its trials have failed of, where that ended it. None in older journals."""


_ASKED = (
    *("number", "role", "search_number", "seed"),
    *("configuration", "code", "values", "searched"),
)


def asked_of(trial: Any) -> dict[str, Any]:
    """Collect the fields that TrialStarted, TrialReused and TrialHistory share."""
    return {name: getattr(trial, name) for name in _ASKED}


Event = Annotated[
    SweepStarted
    | DriverMessage
    | SweepRequested
    | AnnotationWritten
    | TrialStarted
    | TrialPoint
    | TrialCheckpoint
    | TrialFinished
    | ModelDeleted
    | TrialReused
    | TestAccessed
    | TrialEvaluated
    | SearchEnded
    | SweepFinished,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
