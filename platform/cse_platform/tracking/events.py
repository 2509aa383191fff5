"""The events of a sweep's journal: everything that happened in it, one event per line."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    AwareDatetime,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationInfo,
    WrapSerializer,
)

from cse_methods import tasks
from cse_methods.reports import LAST_STEP
from cse_methods.settings import Settings
from cse_methods.task_reference import is_reference
from cse_platform.sweep.blocks import Slug
from cse_platform.sweep.problems import format_value
from cse_platform.sweep.stores import complete_location, shorten_location
from cse_platform.values import map_leaves

TrialState = Literal["COMPLETE", "PRUNED", "FAIL"]
SweepAction = Literal["stop", "retry", "enqueue", "limit"]
Role = Literal["search", "confirm", "repeat"]
MessageLevel = Literal["note", "warning", "error"]
FailureCause = Literal["error", "trial", "person", "refusal", "machine"]
"""Why a trial failed. `error`: its code raised one. `trial`: it diverged or took too long.
`person`: somebody stopped it. `refusal`: the method or the sweep refuses to continue it. `machine`:
its process died. Only the first two say something about the configuration.
"""
Annotatable = Literal["trial", "configuration", "sweep"]
"""What people can annotate with notes, tags and stars."""

MAIN_METRICS = frozenset({"spearman", "accuracy", tasks.MAIN_SCORE})
"""The metrics that papers report on test sets; each task has one of them."""

MODEL_DIGITS = 16
"""Digits of a trial's key in the name of its model's folder."""

TASK_METRICS = dict.fromkeys((*tasks.STS_TASKS, tasks.AVG_STS), "spearman") | dict.fromkeys(
    (*tasks.TRANSFER_TASKS, tasks.AVG_TRANSFER, *tasks.LONG_TASKS), "accuracy"
)
"""The main metric of each task."""

IMPORTED = "imported"
RECORDED = "recorded"
UNCHECKED_DATA = frozenset({IMPORTED, RECORDED})
"""The sources of dev and test sets with unknown checksums: those of imported and of recorded
trials.
"""
IMPORTED_FROM, RECORDED_FROM = "imported_from", "recorded_from"
"""Keys in the provenance of a sweep's start: the file that its trials were imported from, or the
script that recorded them.
"""


def round_to_fraction(value: float) -> float:
    """Return 1 or -1 for a number that exceeds it by rounding alone, and others as they are."""
    return math.copysign(1.0, value) if 1 < abs(value) < 1 + 1e-9 else value


def _check_fraction(value: float) -> float:
    value = round_to_fraction(value)
    if abs(value) > 1:
        raise ValueError(f"expected a fraction from -1 to 1, got {value:g}")
    return value


Count = Annotated[int, Field(ge=0, le=LAST_STEP)]
"""A number or a step, in the range that every store can hold."""
Limit = Annotated[int, Field(ge=1, le=LAST_STEP)]
"""How many trials may run at once."""
Fraction = Annotated[float, AfterValidator(_check_fraction)]
"""A measured correlation or accuracy, or a mean of some; NaN if it is not defined."""
Amount = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
"""An amount that is summed."""
Time = Annotated[
    AwareDatetime,
    Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(3000, 1, 1, tzinfo=UTC)),
]
"""A time that every store can hold, in any time zone."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class RunsPaths:
    """The context of JSON in a runs folder, in which paths are relative to that folder."""

    runs: str
    """The runs folder, where it is now."""
    best: frozenset[str] = frozenset()
    """The folders of best encoders that the sweep has used as hyperparameters."""


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Copy JSON with each text changed, except names in mappings."""
    return map_leaves(value, lambda leaf: change(leaf) if isinstance(leaf, str) else leaf)


def _complete_locations(value: Any, info: ValidationInfo) -> Any:
    paths: RunsPaths | None = info.context
    if paths is None:
        return value
    return _change_texts(value, lambda text: complete_location(text, paths.runs))


def _shorten_locations(
    value: Any, write: SerializerFunctionWrapHandler, info: SerializationInfo
) -> Any:
    written, paths = write(value), info.context
    if paths is None:
        return written
    return _change_texts(written, lambda text: shorten_location(text, paths.runs))


def _shorten_best(value: Any, write: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
    written, paths = write(value), info.context
    if paths is None or not paths.best:
        return written
    return _change_texts(
        written, lambda text: shorten_location(text, paths.runs) if text in paths.best else text
    )


Located = Annotated[_T, AfterValidator(_complete_locations), WrapSerializer(_shorten_locations)]
"""One or more folders or URIs; those in the runs folder are relative to it in its journals."""
Values = Annotated[
    dict[str, Any], AfterValidator(_complete_locations), WrapSerializer(_shorten_best)
]
"""Values of hyperparameters; the same holds for the folders of best encoders among them. Other
places are as the sweep's file names them.
"""


def now() -> datetime:
    return datetime.now(UTC)


class Recorded(Settings):
    """Base of everything in a journal. Unlike settings, measured numbers may be NaN or infinite."""

    model_config = ConfigDict(allow_inf_nan=True)


class SweepEvent(Recorded):
    """Base of all events; the events of a trial name the sweep that holds it.

    Names, keys and hashes become names of files and folders, so in a journal, too, they are slugs.
    """

    kind: str
    time: Time = Field(default_factory=now)
    sweep: Slug


class TrialEvent(SweepEvent):
    trial: Slug
    """The trial's key: sha256 of everything that its numbers depend on."""


class LearnedTrial(Recorded):
    """A configuration of another sweep that the sampler of this one learns from."""

    source: str
    """The trial, as SWEEP#NUMBER."""
    values: Values
    """Values for the dimensions of this sweep's space, as sampled."""
    value: Fraction
    """Its mean dev score in its own sweep."""
    score: float
    """Its value as a z-score within its own sweep."""
    alike: bool
    """Whether it would give the same value here; its value is then used unchanged."""


class Launch(Recorded):
    """One launch of a whole file: what its stages will try is fixed from then on.

    The same file, started again, goes on with the launch that it had.
    """

    settings: str
    """Hash of what decides which trials its stages run."""
    time: Time = Field(default_factory=now)


_PARTS = {
    (dict,): ("fixed", "resources", "search", "seeds", "space"),
    (dict, list, str): ("dev",),
    (list, tuple): ("tags",),
    (str,): ("storage", "experiment"),
}
"""Parts of a sweep's file that are read from journals, by the types that they have."""
_REMOVED = ("objectives", "constraints")
"""Keys of `search` that development versions before 0.1.0 have written. They are ignored: the dev
score is the only objective."""


def _read_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Leave out removed keys, and refuse parts that no version has written, as a journal from
    elsewhere may have them.
    """
    for kinds, names in _PARTS.items():
        for name in names:
            if (part := spec.get(name)) is not None and not isinstance(part, kinds):
                raise ValueError(f"{name} is {format_value(part)}, and no {kinds[0].__name__}")
    for tag in spec.get("tags") or ():
        if not isinstance(tag, str):
            raise ValueError(f"tags has {format_value(tag)}, and no text")
    if (search := spec.get("search")) is None:
        return spec
    trials = search.get("trials")
    if isinstance(trials, int) and trials > LAST_STEP:
        raise ValueError(f"search.trials is {format_value(trials)}, above {LAST_STEP}")
    return {**spec, "search": {key: block for key, block in search.items() if key not in _REMOVED}}


class SweepStarted(SweepEvent):
    """A sweep starts, or starts again after an interruption or with a larger budget.

    Each run that a script records starts its sweep, for the script and the code that it runs.
    """

    kind: Literal["sweep_started"] = "sweep_started"
    method: Annotated[str, Field(min_length=1)]
    backbone: Annotated[str, Field(min_length=1)]
    spec: Annotated[Values, AfterValidator(_read_spec)]
    """The validated sweep file, as JSON."""
    best: Located[dict[str, str]] = Field(default_factory=dict)
    """The folder that replaces each reference to a best encoder, by its placeholder; also those of
    earlier stages, by stage and placeholder.
    """
    leaders: dict[str, Values] | None = None
    """What `start_from: [leaderboard]` was resolved to when first used; None before. All
    hyperparameters of each configuration, by where it was found.
    """
    learned: tuple[LearnedTrial, ...] = ()
    """What the sampler learns from the sweeps in `learn_from`."""
    content: dict[str, Any] = Field(default_factory=dict)
    """Revision and hashes, by name, that the numbers of all its trials depend on. Empty for
    imported trials.
    """
    environment: str | None = None
    """Hash of possible causes of failures: content, packages, and the file's settings of trials.
    None for imported trials.
    """
    launch: Launch | None = None
    """The launch of its file; None for imported trials."""
    provenance: dict[str, str]
    """Git commit, whether it is dirty, command line, host, versions."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Version of every installed distribution, by name."""
    diffs: dict[str, str] = Field(default_factory=dict)
    """Diffs of the code against its commit: `git` for the user's repository, and `package`."""

    @property
    def is_of_one_run(self) -> bool:
        """Whether a script starts it for its own run, while other runs of the sweep may live."""
        return self.spec.get("source") == RECORDED


class DriverMessage(SweepEvent):
    """A message of the driver to people who follow the sweep."""

    kind: Literal["driver_message"] = "driver_message"
    level: MessageLevel
    """An error is the reason why the start of the sweep ended."""
    text: str


class SweepRequested(SweepEvent):
    """The driver has received a person's request for the sweep."""

    kind: Literal["sweep_requested"] = "sweep_requested"
    request: Slug
    """Its id; a request that is received twice counts once."""
    action: SweepAction
    who: str
    numbers: tuple[Count, ...] = ()
    """For stop and retry: which trials; if empty, the whole sweep, or all failed trials."""
    values: Values = Field(default_factory=dict)
    """For enqueue: values of dimensions, as the space samples them."""
    at_most: Limit | None = None
    """For limit: how many trials may run at once until the next start; None for no limit."""


class AnnotationWritten(SweepEvent):
    """A person has annotated a trial, configuration or sweep; `sweep` is a sweep that holds it.

    These events have a journal of their own, which stays when the stores are rebuilt.
    """

    kind: Literal["annotation_written"] = "annotation_written"
    about: Annotatable
    name: Slug
    """The trial's key, the configuration's hash or the sweep's name."""
    who: str
    note: str | None = None
    """Replaces the previous note; an empty one removes it."""
    star: bool | None = None
    tags: dict[Slug, bool] = Field(default_factory=dict)
    """Whether to add (True) or remove each tag."""

    @property
    def changes(self) -> Iterator[tuple[str, str, str, bool]]:
        """Yield for each note, star or tag: its kind, the tag, the note's text, and whether it is
        written or removed.
        """
        if self.note is not None:
            yield "note", "", self.note, bool(self.note)
        if self.star is not None:
            yield "star", "", "", self.star
        yield from (("tag", tag, "", stands) for tag, stands in self.tags.items())


class SearchNotes(Recorded):
    """What a search knows of a trial besides its values and results, to be replayed with them."""

    start_point: Values | None = None
    """The start point, or the point of a grid, that was tried; the sampler drew what it lacks."""
    request: Slug | None = None
    """The request by which a person enqueued the trial."""
    retry_of: Count | None = None
    """The Optuna number of the failed trial that it tries again."""
    trial: dict[str, Any] = Field(default_factory=dict)
    """Attributes of the trial that the sampler set while it drew the values."""
    study: dict[str, Any] = Field(default_factory=dict)
    """Attributes of the study that the sampler set then."""


class TrialBegun(TrialEvent):
    """Base of the events by which a sweep gets a trial."""

    number: Count
    """The number of the trial in its sweep, from 0."""
    role: Role
    search_number: Count | None
    """The number of its Optuna trial; None for confirmations."""
    search_notes: SearchNotes = Field(default_factory=SearchNotes)
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    method: Annotated[str, Field(min_length=1)]
    revision: Count
    backbone: Annotated[str, Field(min_length=1)]
    configuration: Slug
    """Hash of the configuration: like the key, but without the seed."""
    code: str | None = None
    """Hash of the method's code; None if unknown, as for imported trials."""
    values: Values
    """All hyperparameters with their defaults, without inactive ones; null where a search chose
    it."""
    searched: tuple[str, ...]
    """Those names among `values` that the sweep's space varies."""
    dev: dict[str, str]
    """checkpoint, search: dev sets; identity: hash of them and their data; source: builtin, hub
    or senteval; corpus: name; corpus_sha256: of its sentences, absent in older journals and of
    trials that ran elsewhere."""


class TrialStarted(TrialBegun):
    """A trial starts or, with `resumed_from`, continues from a checkpoint."""

    kind: Literal["trial_started"] = "trial_started"
    resumed_from: Count | None = None
    """Optimiser step of the checkpoint."""


class TrialPoint(TrialEvent):
    kind: Literal["trial_point"] = "trial_point"
    step: Count
    value: Fraction
    """The dev score that the search climbs."""
    metrics: dict[str, float]
    """All reported metrics: dev/..., train/..., perf/..."""
    checkpoint: Located[str] | None = None
    """Location of the checkpoint of this step, if it is complete."""
    pruner_notes: dict[str, Any] = Field(default_factory=dict)
    """Attributes that the pruner set on the Optuna trial here, such as the rungs that it reached.
    """


class TrialCheckpoint(TrialEvent):
    """The checkpoint of an earlier dev point has become complete."""

    kind: Literal["trial_checkpoint"] = "trial_checkpoint"
    step: Count
    checkpoint: Located[str]
    """Its location."""


class TrialFinished(TrialEvent):
    kind: Literal["trial_finished"] = "trial_finished"
    state: TrialState
    best_step: Count | None
    """Step of the kept checkpoint; None if nothing was reported."""
    best_value: Fraction | None
    """The search's dev score at `best_step`."""
    best_metrics: dict[str, float] = Field(default_factory=dict)
    """All metrics of `best_step`."""
    model: Located[str] | None = None
    """Folder of the best checkpoint, in the sentence-transformers format."""
    error: str | None = None
    """For FAIL: the error in one line."""
    cause: FailureCause | None = None
    """For FAIL. None for imported trials."""
    why: str | None = None
    """For PRUNED: why it was stopped, in one line. None for imported trials."""
    wall_seconds: Amount | None = None
    gpus: Amount = 0.0
    """Its share of a GPU."""
    costs: dict[str, float] = Field(default_factory=dict)
    """Further costs, from `TrialCosts.totals`; unknown ones are absent."""
    provenance: dict[str, str] = Field(default_factory=dict)
    """Facts of the worker: versions, CPU or GPU, attention kernel, dtype, threads, peak memory."""


class ModelDeleted(TrialEvent):
    """A sweep has deleted a trial's kept model because others are better (`keep: {models: …}`)."""

    kind: Literal["model_deleted"] = "model_deleted"


class TrialReused(TrialBegun):
    """A sweep reuses a trial that another sweep has completed.

    It says enough to store the trial if the journal of that sweep is gone.
    """

    kind: Literal["trial_reused"] = "trial_reused"
    reused_from: Slug
    """The sweep that completed it."""
    curve: dict[Count, Fraction]
    """The search's dev score by step."""
    best_step: Count
    best_value: Fraction
    best_metrics: dict[str, float] = Field(default_factory=dict)
    """As in `TrialFinished`, like the next two fields."""
    wall_seconds: Amount | None = None
    gpus: Amount = 0.0
    model: Located[str] | None
    started: Time
    finished: Time
    """When the other sweep began and completed it."""


TestSource = Literal["builtin", "hub", "senteval", "file"]
"""A source of test sets; `file` is a lab's own file."""


class TestAccessed(TrialEvent):
    """Test sets are about to be opened for a trial; this counts even if no score results."""

    kind: Literal["tests_opened"] = "tests_opened"
    tasks: tuple[str, ...]
    source: TestSource
    """The source of the test sets, whatever the trial's own data."""
    who: str
    command: Literal["cse-sweep", "cse-evaluate"]


class TrialScore(Recorded):
    """One score on one task."""

    task: str
    split: Literal["dev", "test"]
    metric: str
    value: float
    """A fraction, if the metric is a correlation or an accuracy."""
    identity: str
    """Hash of everything that must be equal for scores to be comparable."""


class PackedExamples(Recorded):
    """The value of every example of a task, packed by `cse_platform.tracking.packing`.

    Earlier versions have written only cosines of pairs, whose statistic is Spearman's correlation.
    """

    task: str
    split: Literal["dev", "test"]
    identity: str
    statistic: tasks.Statistic = "spearman"
    """What makes the score of the values."""
    values: str = Field(validation_alias=AliasChoices("values", "cosines"))
    """float32."""
    gold: str | None
    """float64: gold scores, or labels 0 and 1; None for a mean."""
    subsets: dict[str, Count]
    """The number of examples of each subset, in order."""
    data_sha256: str


class TrialEvaluated(TrialEvent):
    """A trial's kept checkpoint has been scored."""

    kind: Literal["trial_evaluated"] = "trial_evaluated"
    tasks: tuple[str, ...]
    """Everything that was requested, whether or not it has a score: single tasks, `ranking`,
    `geometry`.
    """
    settings: str = ""
    """The settings of a sweep's evaluation; with other settings, it is a different evaluation."""
    source: str | None = None
    """The source of the package's test data: builtin, hub, senteval or imported."""
    scores: tuple[TrialScore, ...]
    examples: tuple[PackedExamples, ...] = Field(
        validation_alias=AliasChoices("examples", "similarities")
    )
    identities: dict[str, dict[str, Any]]
    """The settings that each identity is the hash of."""
    seconds: dict[str, float]
    """`encoding`, and the time of each task."""

    def source_of(self, identity: str) -> str | None:
        """Return the source of the data behind an identity; a lab's own files are `file`."""
        settings = self.identities.get(identity, {})
        if "source" in settings:
            return str(settings["source"])
        is_of_hub = self.source == "builtin" and is_reference(settings.get("task"))
        return "hub" if is_of_hub else self.source


class SearchEnded(SweepEvent):
    """A search proposes no more trials because a budget other than their number is spent.

    A grid whose points are all proposed has spent its budget, too.
    """

    kind: Literal["search_ended"] = "search_ended"
    budget: str
    """The budget, in words."""


class SweepFinished(SweepEvent):
    """A sweep is complete, or was interrupted."""

    kind: Literal["sweep_finished"] = "sweep_finished"
    state: Literal["COMPLETE", "INTERRUPTED"]
    why: str | None = None
    """The common cause of all its trials' failures, if that ended it."""


class SweepDeleted(SweepEvent):
    """A sweep is being deleted. It is the last event of a journal, whose file goes last."""

    kind: Literal["sweep_deleted"] = "sweep_deleted"
    who: str


_SHARED_FIELDS = (
    *("number", "role", "search_number", "search_notes", "seed"),
    *("configuration", "code", "values", "searched"),
)


def copy_shared_fields(trial: Any) -> dict[str, Any]:
    """Collect the fields that TrialStarted, TrialReused and TrialHistory share."""
    return {name: getattr(trial, name) for name in _SHARED_FIELDS}


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
    | SweepFinished
    | SweepDeleted,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
