"""The records that the leaderboard answers with: rows and trials.

Scores are fractions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Any, Literal, NamedTuple

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.published.released import ReleasedEncoder, released_encoder
from cse_methods.published.training_data import declared_training
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.statistics.intervals import seed_interval
from cse_platform.leaderboard.statistics.results import Interval, RankInterval
from cse_platform.render.formats import HASH_DIGITS
from cse_platform.sweep.training_data import teachers_of
from cse_platform.tracking.history import MEMORY, format_seed

FamilyName = Literal["sts", "transfer", "ranking", "long", "clean", "own"]
OWN: FamilyName = "own"
"""A lab's own test sets; which ones there are is known from scores alone."""

RANKING_METRICS = ("kcc", "ndcg")
CLEAN_METRIC = "clean"
"""Spearman's correlation over the rows that neither a dev set nor an earlier task has."""
COLUMN_METRICS = (*RANKING_METRICS, CLEAN_METRIC)
"""The metrics that columns are named after: `stsb_kcc`, `stsb_clean`."""


@dataclass(frozen=True)
class BoardFamily:
    """Tasks whose scores are shown together."""

    name: FamilyName
    columns: tuple[str, ...]
    """Task ids in the papers' order; of ranking and clean scores, task and metric: `stsb_kcc`."""
    averages: tuple[str, ...]
    """Columns that are means over the others; the first is the family's headline."""

    def over(self, average: str) -> tuple[str, ...]:
        """Return the columns that an average is over, of its own metric."""
        suffix = average.removeprefix(AVG_STS) if self.name == "ranking" else ""
        return tuple(c for c in self.columns if c not in self.averages and c.endswith(suffix))


BOARD_FAMILIES = {
    family.name: family
    for family in (
        BoardFamily("sts", (*STS_TASKS, AVG_STS), (AVG_STS,)),
        BoardFamily("transfer", (*TRANSFER_TASKS, AVG_TRANSFER), (AVG_TRANSFER,)),
        BoardFamily(
            "ranking",
            tuple(
                f"{task}_{metric}" for metric in RANKING_METRICS for task in (*STS_TASKS, AVG_STS)
            ),
            tuple(f"{AVG_STS}_{metric}" for metric in RANKING_METRICS),
        ),
        BoardFamily("long", LONG_TASKS, ()),
        BoardFamily(
            "clean",
            tuple(f"{task}_{CLEAN_METRIC}" for task in (*STS_TASKS, AVG_STS)),
            (f"{AVG_STS}_{CLEAN_METRIC}",),
        ),
    )
}


_KNOWN_COLUMNS = frozenset(
    column for family in BOARD_FAMILIES.values() for column in family.columns
)


def is_own(column: str) -> bool:
    """Whether a column is a lab's own test set: its name is none that has a meaning here."""
    return column not in _KNOWN_COLUMNS


def task_of(column: str) -> str:
    """The task that a column is of: `stsb` of `stsb` and of `stsb_clean`."""
    task, _, metric = column.rpartition("_")
    return task if metric in COLUMN_METRICS and not is_own(column) else column


def is_clean(column: str) -> bool:
    """Whether a column holds clean scores."""
    return column.endswith(f"_{CLEAN_METRIC}") and not is_own(column)


def families_beside(name: FamilyName) -> tuple[FamilyName, ...]:
    """The family, and what stands beside it in a row: of clean scores, those of the papers."""
    return (name, "sts") if name == "clean" else (name,)


@dataclass(frozen=True)
class DevSets:
    """The dev sets behind a value."""

    checkpoint: str
    search: str
    identity: str
    source: str


@dataclass(frozen=True)
class Configuration:
    """One assignment of hyperparameters."""

    hash: str
    values: dict[str, Any]
    searched: list[str]
    """The names among `values` that a sweep varied."""
    code: str | None = None
    """Hash of the code of the method that its trials ran by; None where it is not known."""


@dataclass(frozen=True)
class AveragedSeeds:
    """The trials of one configuration whose weights a row is the average of."""

    keys: tuple[str, ...]
    dev_mean: float | None
    """The mean of their own dev scores; None where one of them is not on this leaderboard."""


@dataclass(frozen=True)
class Estimate:
    """One score over seeds."""

    values: dict[int, float]
    """By seed."""
    mean: float
    std: float | None
    """The standard deviation, with n - 1; None for a single seed."""
    best: float
    """The highest of the seeds: what a paper reports that picks its seed."""
    interval: Interval | None = None
    """The interval of the mean; None for one seed without pairs."""
    identity: str = ""
    """The identity of the evaluation or dev sets; scores of equal identity can be compared."""
    source: str = ""
    """The source of its data: `builtin`, `hub`, `senteval` or `imported`; empty where it is not
    known."""

    @property
    def n(self) -> int:
        """The number of seeds."""
        return len(self.values)


@dataclass(frozen=True)
class Gap:
    """The difference of a row to the published number on `column`."""

    column: str
    published: float
    """A fraction."""
    source: str
    """Paper and table, e.g. `rankcse table2`."""
    difference: float
    inside: bool | None
    """Whether the published number lies inside our interval; None where there is no interval."""


class ConfigurationSetup(NamedTuple):
    """The setup of a configuration, which decides in which rows of a paper it stands."""

    method: str
    backbone: str
    corpus: str
    dev_search: str
    """The dev set that its search climbs."""
    values: Mapping[str, Any]
    """All hyperparameters."""
    is_scored: bool
    """Whether any of its trials has a test score."""

    @property
    def released(self) -> ReleasedEncoder | None:
        """The released encoder that it scores; None if it trains its own."""
        return released_encoder(self.method, self.backbone, self.values)


Place = Literal["corpus", "teachers", "dev"]
"""Where sentences were seen: in the training corpus, in the corpora that the authors of teachers
declare, or in a lab's own dev files."""


@dataclass(frozen=True)
class SeenSentences:
    """How many sentences of a set stand in what a trial was trained on or chosen by."""

    task: str
    split: Literal["dev", "test"]
    place: Place
    names: tuple[str, ...]
    """The corpora or files that were looked through."""
    sentences: int
    """The different sentences of the set."""
    found: int
    """Those of them that stand there."""

    @property
    def share(self) -> float:
        """The fraction of them that stand there."""
        return self.found / max(1, self.sentences)


TEACHER_SAW_PAIRS, SAW_TESTS = "teacher saw pairs", "saw test sentences"


def training_marks(
    method: str,
    backbone: str,
    corpus: str,
    values: Mapping[str, Any],
    seen: Sequence[SeenSentences],
) -> tuple[str, ...]:
    """Name what a reader must know of how an encoder was trained; nothing for most.

    `released`: by its authors, not here. `transductive`: on the texts of test sets. `teacher saw
    pairs`: by what the authors of a teacher say. `saw test sentences`: some stand in its corpus,
    its teachers' corpora or its own dev files.
    """
    declared = [declared_training(teacher) for teacher in teachers_of(values)]
    marks = {
        "released": released_encoder(method, backbone, values) is not None,
        "transductive": TRANSDUCTIVE in corpus,
        TEACHER_SAW_PAIRS: any(known is not None and known.pairs for known in declared),
        SAW_TESTS: any(one.split == "test" and one.found for one in seen),
    }
    return tuple(name for name, stands in marks.items() if stands)


@dataclass(frozen=True)
class LeaderboardRow:
    """One configuration over its seeds, under one evaluation identity.

    By default it is the best configuration on dev of its group: method, backbone and dev sets.
    """

    method: str
    backbone: str
    sweep: str
    """The first sweep that holds the configuration."""
    configuration: Configuration
    seeds: list[int]
    """The complete seeds that the filters let through."""
    keys: dict[int, str]
    """The keys of their trials, by seed."""
    dev: DevSets
    dev_score: Estimate
    dev_untrained: float | None
    """The mean score at step 0: the backbone before training."""
    trials: int
    """How many trials, of any state, the choice was made from."""
    gpu_hours: float | None
    """The hours of whole GPUs of these trials; 0 on CPUs, None for imported ones."""
    finished: datetime
    """When its last seed finished."""
    machines: list[str]
    """The machines on which its seeds ran: host and hardware."""
    tags: list[str]
    """Its own tags, those of its trials, and those of the sweeps that hold it."""
    corpus: str = ""
    """Names of the training corpora, with `+` between."""
    scores: dict[str, Estimate] = field(default_factory=dict)
    """The test scores, by column (see `BOARD_FAMILIES`)."""
    wall_seconds: float | None = None
    """The wall time of a trial, the mean over its seeds; None if it is not known."""
    costs: dict[str, Estimate] = field(default_factory=dict)
    """The costs of its trials, by name as in `COSTS`; unknown ones are left out. Costs of one
    identity, the hardware, can be compared."""
    epochs: float | None = None
    """The fewest epochs that one of its seeds went through; None where that is not known."""
    test_opened: datetime | None = None
    """When test sets, built-in or real as those of its scores, were first opened for the method on
    the backbone, if that was before this configuration's first trial started: they may have helped
    to pick it. One that was tried before that and promoted later has None."""
    starred: bool = False
    """Whether somebody has given a star to it or to one of its trials."""
    notes: list[str] = field(default_factory=list)
    """The notes that people wrote about it, then about its trials."""
    other_code: bool = False
    """Whether the newest trial of its group ran by other code than its own."""
    seen: tuple[SeenSentences, ...] = ()
    """How many sentences of test and dev sets its trials have seen; empty where no evaluation has
    counted them."""
    headline: str | None = None
    """The column that `rank` and `gap` are of; None for dev."""
    averages: AveragedSeeds | None = None
    """The seeds whose weights it averages; None for a configuration that was trained."""
    rank: RankInterval | None = None
    """Among the shown rows whose headline has the same identity."""
    gap: Gap | None = None

    @property
    def n(self) -> int:
        """The number of seeds."""
        return len(self.seeds)

    @property
    def reference(self) -> str:
        """METHOD@CONFIGURATION, as commands and the page take it."""
        return f"{self.method}@{self.configuration.hash[:HASH_DIGITS]}"

    @property
    def released(self) -> ReleasedEncoder | None:
        """The released encoder that the row is of; None where its trials were trained here."""
        return self.setup.released

    @property
    def marks(self) -> tuple[str, ...]:
        """What a reader must know of how it was trained; see `training_marks`."""
        values = self.configuration.values
        return training_marks(self.method, self.backbone, self.corpus, values, self.seen)

    @property
    def name_mark(self) -> str:
        """What follows its name: trained on the texts of test sets, or an average of seeds."""
        transductive = TRANSDUCTIVE if TRANSDUCTIVE in self.corpus else ""
        averages = self.averages
        return transductive + (f" (average of {len(averages.keys)} seeds)" if averages else "")

    @property
    def shown_method(self) -> str:
        """The method's name in tables for people, marked; for a released encoder, its system."""
        return (self.released.label if self.released else self.method) + self.name_mark

    @property
    def shown_backbone(self) -> str:
        """The backbone; for a released encoder, the model that it was trained from."""
        return self.released.trained_from if self.released else self.backbone

    @property
    def setup(self) -> ConfigurationSetup:
        """The setup that the configuration was trained with."""
        values = self.configuration.values
        scored = bool(self.scores)
        return ConfigurationSetup(
            self.method, self.backbone, self.corpus, self.dev.search, values, scored
        )

    @property
    def best_trial(self) -> str | None:
        """The key of the seed with the highest dev score."""
        values = self.dev_score.values
        best = max(self.keys, key=lambda seed: values.get(seed, -inf), default=None)
        return None if best is None else self.keys[best]

    def cost(self, name: str) -> float | None:
        """Return one of `COSTS`: the highest of any seed for memory, else the mean.

        None if it is unknown.
        """
        known = self.costs.get(name)
        return None if known is None else known.best if name in MEMORY else known.mean

    @property
    def epoch_is_extrapolated(self) -> bool:
        """Whether one of its seeds trained through a part of an epoch alone."""
        return self.epochs is not None and self.epochs < 1

    @property
    def ranked_score(self) -> Estimate | None:
        """The score that the row is ranked by: the headline's, or dev; None if the row lacks it."""
        return self.dev_score if self.headline is None else self.scores.get(self.headline)


def family_named(name: str, rows: Iterable[LeaderboardRow] = ()) -> BoardFamily:
    """Find the family of that name; own test sets are those of the rows, by name.

    Raises:
        NotFoundError: if there is none.
    """
    if name == OWN:
        own = {column for row in rows for column in row.scores if is_own(column)}
        return BoardFamily(OWN, tuple(sorted(own)), ())
    named = [family for family in BOARD_FAMILIES.values() if family.name == name]
    if not named:
        raise NotFoundError(
            f"there are no tasks {name!r}; expected {', '.join((*BOARD_FAMILIES, OWN))}"
        )
    return named[0]


def family_of(rows: Sequence[LeaderboardRow]) -> FamilyName:
    """Find the first family that any row has scores of; `sts` if there is none."""
    for name, family in BOARD_FAMILIES.items():
        if any(column in row.scores for row in rows for column in family.columns):
            return name
    return "sts"


def estimate(values: Mapping[int, float], identity: str, source: str) -> Estimate:
    """Estimate one score over seeds, with Student's interval if there are several."""
    mean = math.fsum(values.values()) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values.values())
    return Estimate(
        values=dict(values),
        mean=mean,
        std=math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None,
        best=max(values.values()),
        interval=seed_interval(list(values.values())),
        identity=identity,
        source=source,
    )


def single_seed(row: LeaderboardRow, seed: int) -> LeaderboardRow:
    """Reduce a row to one of its seeds."""

    def of_seed(estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
        return {
            name: estimate({seed: score.values[seed]}, score.identity, score.source)
            for name, score in estimates.items()
            if seed in score.values
        }

    dev = estimate({seed: row.dev_score.values[seed]}, row.dev.identity, row.dev.source)
    return replace(
        row,
        seeds=[seed],
        keys={seed: row.keys[seed]},
        dev_score=dev,
        scores=of_seed(row.scores),
        costs=of_seed(row.costs),
    )


@dataclass(frozen=True)
class TrialSummary:
    """A trial and its place in a sweep."""

    number: int
    """Its number in the sweep."""
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
    a running one, the last or the best that was reported, where the query asks for it."""
    step: int | None
    """The step that `value` is of, or the last one, where the query asks for it."""
    started: datetime
    finished: datetime | None
    sweep: str
    """The sweep that `number` and `role` are of; where none was asked for, the first."""
    method: str
    backbone: str
    model: str | None = None
    """Folder of the best checkpoint."""
    error: str | None = None
    averages: int = 0
    """The number of trials whose weights it averages; 0 for one that was trained."""
    weight: float = 1.0
    """How many trials of the sweep it stands for: more than 1 where it is one of a sample."""
    wall_seconds: float | None = None
    """From its start to its end, on all machines that it has run on. This and what follows is there
    where the query asks for it."""
    gpu_seconds: float = 0.0
    best_metrics: dict[str, float] = field(default_factory=dict)
    """The metrics of the best step that are numbers."""
    first_reported: datetime | None = None
    """The time of its first dev point."""

    @property
    def best_value(self) -> float | None:
        """The value that the search climbs, for objectives and constraints."""
        return self.value

    @property
    def shown_seed(self) -> str:
        """Say which seed it was trained with, or of how many ones it is the average."""
        return format_seed(self.seed, averages=self.averages)

    @property
    def gpus(self) -> float:
        """Its share of a GPU."""
        return self.gpu_seconds / self.wall_seconds if self.wall_seconds else 0.0

    def as_record(self) -> dict[str, Any]:
        """Return the fields that commands print as JSON: those that every query asks for."""
        return {name: v for name, v in asdict(self).items() if name not in _ASKED_FOR}


_ASKED_FOR = ("wall_seconds", "gpu_seconds", "best_metrics", "first_reported")
