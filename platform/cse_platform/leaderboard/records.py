"""The records that leaderboard queries return: rows and trials.

Scores are fractions.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from math import inf
from typing import Any, Literal, NamedTuple

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.files.named import is_file_name
from cse_methods.published.released import (
    ReleasedEncoder,
    declared_training,
    released_encoder,
    teachers_of,
)
from cse_platform.counting_seeds import rate_seeds, select_counting_seeds
from cse_platform.leaderboard.families import task_of
from cse_platform.leaderboard.statistics.intervals import (
    Interval,
    RankInterval,
    seed_interval,
    standard_deviation,
)
from cse_platform.numbers import HASH_DIGITS
from cse_platform.tracking.history import MEMORY

BUILTIN = "builtin"
"""The source of the project's own generated data, whose scores say nothing about real data."""
OWN_FILE = "file"
"""The source of a lab's own dev and test sets."""
TEST_SOURCES = frozenset({BUILTIN, "hub", "senteval"})
"""The sources of the package's test sets."""
CLAIMED = "claimed"
"""The source of imported scores of another revision than the trial's model."""
DEV = "dev"
"""The column of dev scores."""


@dataclass(frozen=True)
class DevSets:
    """The dev sets that picked the checkpoint and guided the search, their identity and data
    source.
    """

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
    """Those names among `values` that a sweep varied."""
    code: str | None = None
    """Hash of the method's code that its trials ran; None if it is unknown."""
    corpus_sha256: str | None = None
    """Hash of the sentences that they were trained on; None if it is unknown."""

    @property
    def compared_values(self) -> dict[str, Any]:
        """The values in the words that all methods share: the library's pooler `mean` is `avg`."""
        return self.values | ({"pooler": "avg"} if self.values.get("pooler") == "mean" else {})


@dataclass(frozen=True)
class Estimate:
    """One score over seeds."""

    values: dict[int, float]
    """The scores by seed, of the seeds that count: those that did not choose the configuration
    where there are enough of them.
    """
    mean: float
    std: float | None
    """The sample standard deviation (ddof 1); None for a single seed."""
    best: float
    """The highest score of any seed, which papers report that pick their best seed."""
    interval: Interval | None = None
    """95 % confidence interval of the mean; None for a single seed without pairs. With
    `counts_choice`, it covers the true mean less often.
    """
    identity: str = ""
    """The identity of the evaluation or dev sets; scores of equal identity can be compared."""
    source: str = ""
    """The source of its data: `builtin`, `hub`, `senteval`, `file` or `imported`; empty if
    unknown.
    """
    counts_choice: bool = False
    """Whether one of `values` took part in the choice of a configuration. Those of the chosen one
    are too high; see `LeaderboardRow.counts_choice_in`.
    """
    repeats: int = 0
    """How many of `values` are of seeds with which a search repeated the configuration."""
    left_out: dict[int, float] = field(default_factory=dict)
    """The scores by seed that do not count, as these seeds chose the configuration."""

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def standing(self) -> int:
        """How well the seeds estimate the score, as `rate_seeds` says."""
        return rate_seeds(self.n, 0 if self.counts_choice else self.n, self.repeats)


@dataclass(frozen=True)
class Gap:
    """The difference between a row and the published number on its headline."""

    published: float
    source: str
    """Paper and table, e.g. `rankcse table2`."""
    difference: float
    inside: bool | None
    """Whether the published number lies inside our interval; None if there is no interval."""


class ConfigurationSetup(NamedTuple):
    """The setup of a configuration, which decides which rows of a paper it matches."""

    method: str
    backbone: str
    corpus: str
    dev_search: str
    """The dev set that its search climbs."""
    values: Mapping[str, Any]
    is_scored: bool
    """Whether any of its trials has a test score."""

    @property
    def released(self) -> ReleasedEncoder | None:
        """The released encoder that it scores; None if it trains its own encoder."""
        return released_encoder(self.method, self.backbone, self.values)


SeenIn = Literal["corpus", "teachers", "dev"]
"""Where sentences were seen: in the training corpus, in the corpora that a teacher's authors
declare, or in a lab's own dev files.
"""


@dataclass(frozen=True)
class SeenSentences:
    """How many sentences of a set occur in the data that a trial was trained or selected on."""

    task: str
    split: Literal["dev", "test"]
    seen_in: SeenIn
    names: tuple[str, ...]
    """The corpora or files that were searched."""
    sentences: int
    """The number of distinct sentences of the set."""
    seen: int
    """The number of these that occur there."""
    source: str = ""
    """The source of the set's data; empty if unknown."""
    data_sha256: str = ""
    """The hash of a test set's data; empty for dev sets, and where an older evaluation counted."""

    @property
    def share(self) -> float:
        """`seen` as a fraction of `sentences`."""
        return self.seen / max(1, self.sentences)


TEACHER_SAW_PAIRS, SAW_TESTS = "teacher saw pairs", "saw test sentences"
CHOICE_COUNTS, TESTS_OPENED, RAN_OTHER_CODE = "choice counts", "tests opened", "other code"


class Trained:
    """What has been trained: a row of the board, or a trial."""

    method: str
    backbone: str
    corpus: str
    configuration: Configuration
    seen: tuple[SeenSentences, ...]

    @property
    def released(self) -> ReleasedEncoder | None:
        """The released encoder that was scored; None if its encoder was trained here."""
        return released_encoder(self.method, self.backbone, self.configuration.values)

    @property
    def shown_corpus(self) -> str:
        """The corpus for people; the hash of its content tells files of one name apart."""
        digits = self.configuration.corpus_sha256
        files = any(is_file_name(name.partition("[:")[0]) for name in self.corpus.split("+"))
        return f"{self.corpus} ({digits[:HASH_DIGITS]})" if files and digits else self.corpus

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks for what a reader must know about its training; most have none.

        `released`: trained by its authors, not here. `transductive`: trained on the texts of test
        sets. `teacher saw pairs`: a teacher was trained on sentence pairs, according to its
        authors. `saw test sentences`: some occur in its corpus, its teachers' corpora or its own
        dev files.
        """
        teachers = teachers_of(self.configuration.values)
        declared = [declared_training(teacher) for teacher in teachers]
        marks = {
            "released": self.released is not None,
            "transductive": TRANSDUCTIVE in self.corpus,
            TEACHER_SAW_PAIRS: any(known is not None and known.pairs for known in declared),
            SAW_TESTS: any(each.split == "test" and each.seen for each in self.seen),
        }
        return tuple(name for name, stands in marks.items() if stands)


UNIT = 1e12
"""Mean dev scores are compared after rounding to 1e-12. The store updates a mean when a seed
completes, a filtered board takes SQL's `avg` and a sweep `fmean`; these add in different orders, so
means of equal seeds can differ in the last bit. No dev score is meaningful to twelve digits, and a
multiple of 1e-12 in [-1, 1] is a whole number that a float represents exactly.
"""
BestKey = tuple[int, int, str]


def best_key(*, standing: int, mean: float, configuration: str) -> BestKey:
    """Return the sort key of a configuration; the best configuration has the highest key.

    `standing` says how well its seeds estimate it, as `rate_seeds` does; `mean` is their mean dev
    score.
    """
    return standing, round(mean * UNIT), configuration


@dataclass(frozen=True)
class LeaderboardRow(Trained):
    """One configuration over its seeds, under one evaluation identity.

    By default it is the best configuration on dev of its group: method, backbone and dev sets.
    """

    method: str
    backbone: str
    sweep: str
    configuration: Configuration
    seeds: list[int]
    """The complete seeds that pass the filters and count: without those that chose the
    configuration, where there are at least two others.
    """
    keys: dict[int, str]
    """The keys of the trials of all complete seeds that pass the filters, by seed."""
    dev: DevSets
    dev_score: Estimate
    dev_untrained: float | None
    """The mean dev score at step 0, before training."""
    trials: int
    """The number of trials, of any state, that the configuration was selected from."""
    gpu_hours: float | None
    """GPU-hours of these trials, in whole GPUs; 0 on CPUs, None for imported trials."""
    finished: datetime
    """When the last seed finished."""
    machines: list[str]
    """The machines on which its seeds ran: host and hardware."""
    tags: list[str]
    """Its own tags, those of its trials, and those of the sweeps that hold it."""
    chosen_by: dict[int, float] = field(default_factory=dict)
    """The dev scores, by seed, by which searches chose the configuration among others. If nothing
    selected the row, these are only those that are the highest of a search or that do not count.
    """
    best_of: int = 1
    """The number of estimates that its own is the best of: of configurations that seeds estimate
    which did not choose them, else of the trials that ended in a search. 1 if nothing chose it.
    """
    corpus: str = ""
    """The training corpora, joined with `+`."""
    scores: dict[str, Estimate] = field(default_factory=dict)
    """The test scores, by column (see `BOARD_FAMILIES`)."""
    benchmarks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns that the mean of each benchmark among `scores` is over."""
    wall_seconds: float | None = None
    """The mean wall time of a trial over the seeds; None if unknown."""
    costs: dict[str, Estimate] = field(default_factory=dict)
    """The costs of its trials, by name as in `COSTS`, without unknown ones. The identity of a cost
    is its hardware; costs of equal identity can be compared.
    """
    epochs: float | None = None
    """The fewest epochs of any seed; None if unknown."""
    test_opened: datetime | None = None
    """When test sets were first opened for this method and backbone, if that was before this
    configuration was chosen: they may have influenced its choice. It is chosen when the whole file
    that names or searches it is launched, when a person enqueues it, or when its first trial
    starts, whichever is earliest. Only openings of the kind of test sets (built-in or real) that
    the scores are on count, and none of a lab's own files. None if the configuration was chosen
    before.
    """
    starred: bool = False
    notes: list[str] = field(default_factory=list)
    """The notes on the configuration, then those on its trials."""
    other_code: bool = False
    """Whether the newest trial of the group ran different code than this configuration."""
    seen: tuple[SeenSentences, ...] = ()
    """How many test and dev sentences its trials have seen; empty if they are not counted."""
    headline: str | None = None
    """The column that `rank` and `gap` refer to; None for dev."""
    rank: RankInterval | None = None
    """The rank among the shown rows whose headline has the same identity."""
    gap: Gap | None = None

    @property
    def n(self) -> int:
        return len(self.seeds)

    @property
    def reference(self) -> str:
        """METHOD@CONFIGURATION, as commands and the dashboard take it."""
        return f"{self.method}@{self.configuration.hash[:HASH_DIGITS]}"

    @property
    def name_mark(self) -> str:
        """The suffix of its name if it was trained on the texts of test sets."""
        return TRANSDUCTIVE if TRANSDUCTIVE in self.corpus else ""

    @property
    def shown_method(self) -> str:
        """The method's name for people, with its mark; for a released encoder, its label."""
        return (self.released.label if self.released else self.method) + self.name_mark

    @property
    def shown_backbone(self) -> str:
        """The backbone; for a released encoder, the backbone that it was trained from."""
        return self.released.trained_from if self.released else self.backbone

    @property
    def setup(self) -> ConfigurationSetup:
        """The setup, which decides which rows of a paper it matches."""
        columns = self.method, self.backbone, self.corpus, self.dev.search
        return ConfigurationSetup(*columns, self.configuration.values, bool(self.scores))

    @property
    def dev_values(self) -> dict[int, float]:
        """The dev score of every complete seed, whether it counts or not."""
        return {**self.dev_score.values, **self.dev_score.left_out}

    @property
    def counts_choice(self) -> bool:
        """Whether a value that chose the configuration counts in one of its estimates."""
        return any(map(self.counts_choice_in, (self.dev_score, *self.scores.values())))

    def counts_choice_in(self, score: Estimate) -> bool:
        """Whether a value that chose the configuration counts in this estimate, so that it is too
        high.
        """
        return not self.chosen_by.keys().isdisjoint(score.values)

    def cautions(self, scores: Iterable[Estimate]) -> tuple[str, ...]:
        """Name what a reader must know of these scores of it, and of its training as `marks` does.

        `choice counts`: a value that chose it counts in one of them. `tests opened`: it was chosen
        after such test sets had been opened. `other code`: newer trials ran other code.
        """
        stands = {
            CHOICE_COUNTS: any(map(self.counts_choice_in, scores)),
            TESTS_OPENED: self.test_opened is not None,
            RAN_OTHER_CODE: self.other_code,
        }
        return (*(name for name, holds in stands.items() if holds), *self.marks)

    def lacking_in(self, columns: Collection[str]) -> list[str]:
        """List those of these scores that a seed lacks which counts on dev, so that one that chose
        the configuration counts in them, and in the others of their family.
        """
        held = [name for name in columns if name in self.scores]
        return [name for name in held if not self.scores[name].values.keys() >= {*self.seeds}]

    def seen_on(self, columns: Collection[str]) -> "LeaderboardRow":
        """Keep what it has seen of the test sets of these columns, and of all dev sets."""
        tasks = set(map(task_of, columns))
        kept = (each for each in self.seen if each.split == "dev" or each.task in tasks)
        return replace(self, seen=tuple(kept))

    def seeds_for(self, score: Estimate) -> list[int]:
        """List the seeds that an estimate would be over if all had a score: those that count, or
        all complete ones if it is also over others.
        """
        return self.seeds if score.values.keys() <= set(self.seeds) else sorted(self.keys)

    @property
    def best_trial(self) -> str | None:
        """The key of the trial of the seed with the highest dev score."""
        values = self.dev_values
        best = max(self.keys, key=lambda seed: values.get(seed, -inf), default=None)
        return None if best is None else self.keys[best]

    def cost(self, name: str) -> float | None:
        """Return one of `COSTS`: for memory the maximum over seeds, else the mean.

        None if it is unknown.
        """
        known = self.costs.get(name)
        return None if known is None else known.best if name in MEMORY else known.mean

    @property
    def epoch_is_extrapolated(self) -> bool:
        """Whether one of its seeds trained for less than an epoch."""
        return self.epochs is not None and self.epochs < 1

    @property
    def ranked_score(self) -> Estimate | None:
        """The score that the row is ranked by: the headline, or dev; None if the row lacks it."""
        return self.score_on(self.headline)

    @property
    def headline_score(self) -> Estimate | None:
        """The test score that the row is ranked by; None if it is ranked on dev or lacks it."""
        return self.ranked_score if self.headline else None

    def score_on(self, headline: str | None) -> Estimate | None:
        """Return the score in a column, or on dev for None; None if the row lacks it."""
        return self.dev_score if headline is None else self.scores.get(headline)


def dev_key(row: LeaderboardRow) -> BestKey:
    """Return the sort key of a row; the best configuration of a group has the highest key."""
    score, name = row.dev_score, row.configuration.hash
    return best_key(standing=score.standing, mean=score.mean, configuration=name)


def order_by_dev(rows: Iterable[LeaderboardRow]) -> list[LeaderboardRow]:
    """Order rows by their dev means, highest first.

    Rows with equal means are ordered by method, and within a method by the rule of `best_key`.
    """
    by_rule = sorted(rows, key=lambda row: dev_key(row)[1:], reverse=True)
    return sorted(by_rule, key=lambda row: (-dev_key(row)[1], row.method))


def estimate(
    values: Mapping[int, float],
    identity: str,
    source: str,
    counted: Collection[int] | None = None,
    chose: Collection[int] = (),
    repeats: Collection[int] = (),
) -> Estimate:
    """Estimate one score over seeds, with Student's interval if several of them count.

    Args:
        values: the score by seed.
        identity: of the evaluation or the dev sets.
        source: of its data.
        counted: the seeds that estimate the configuration; if it is None, or none of these has the
            score, all count.
        chose: the seeds whose dev scores chose the configuration.
        repeats: the seeds with which a search repeated it.
    """
    kept = {seed: v for seed, v in values.items() if counted is None or seed in counted}
    kept = kept or dict(values)
    scores = list(kept.values())
    return Estimate(
        values=kept,
        mean=math.fsum(scores) / len(scores),
        std=standard_deviation(scores) if len(scores) > 1 else None,
        best=max(scores),
        interval=seed_interval(scores),
        identity=identity,
        source=source,
        counts_choice=not kept.keys().isdisjoint(chose),
        repeats=len(kept.keys() & set(repeats)),
        left_out={seed: value for seed, value in values.items() if seed not in kept},
    )


def mean_change(score: Estimate, other: Estimate) -> float | None:
    """Compute how much a score is above another one over the seeds that have both; None without
    any. Seeds that count come first.
    """
    ours, theirs = ({**each.left_out, **each.values} for each in (score, other))
    both = ours.keys() & theirs.keys()
    counted = both & score.values.keys() or both
    if not counted:
        return None
    return math.fsum(ours[seed] - theirs[seed] for seed in counted) / len(counted)


def single_seed(row: LeaderboardRow, seed: int) -> LeaderboardRow:
    """Reduce a row to one of its complete seeds, whether it counts or not."""

    def of_seed(estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
        reduced = {}
        for name, score in estimates.items():
            if (value := (score.values | score.left_out).get(seed)) is not None:
                own = {seed: value}
                reduced[name] = estimate(own, score.identity, score.source, [seed], row.chosen_by)
        return reduced

    [dev] = of_seed({"": row.dev_score}).values()
    return replace(
        row,
        seeds=[seed],
        keys={seed: row.keys[seed]},
        dev_score=dev,
        scores=of_seed(row.scores),
        costs=of_seed(row.costs),
        chosen_by={s: value for s, value in row.chosen_by.items() if s == seed},
        best_of=1,
    )


@dataclass(frozen=True)
class Annotation:
    """One note, tag or star."""

    text: str
    """The text of the note or tag; empty for a star."""
    who: str
    time: datetime


@dataclass(frozen=True)
class Annotations:
    """The current note, star and tags of one trial, configuration or sweep."""

    note: Annotation | None = None
    star: Annotation | None = None
    tags: tuple[Annotation, ...] = ()
    """The tags in alphabetical order."""

    @property
    def tag_names(self) -> tuple[str, ...]:
        return tuple(tag.text for tag in self.tags)


@dataclass(frozen=True)
class DevPoint:
    """One point of a dev curve."""

    step: int
    value: float | None
    """The dev score, a fraction; None if it was NaN."""
    metrics: dict[str, float | None]
    kept: bool = False
    """Whether the best checkpoint, chosen by `dev: {checkpoint: …}`, is of this step."""


@dataclass(frozen=True)
class Trial:
    """A trial and its place in a sweep."""

    number: int
    key: str
    state: str
    """RUNNING, COMPLETE, PRUNED or FAIL."""
    seed: int
    role: str
    """`search`; `confirm` and `repeat` are further seeds of configurations of the search."""
    configuration: str
    """The hash of its configuration, which all seeds share."""
    searched_values: dict[str, Any]
    """The searched hyperparameters that are active."""
    best_value: float | None
    """The dev score of the best checkpoint; for a pruned trial, the best until it was stopped. For
    a running one, the best so far, if the query reads it.
    """
    best_step: int | None
    """The step of `best_value`."""
    started: datetime
    finished: datetime | None
    sweep: str
    """The sweep of `number` and `role`; the first that holds the trial if the query names none."""
    method: str
    backbone: str
    model: str | None = None
    """Folder of the best checkpoint."""
    error: str | None = None
    weight: float = 1.0
    """The number of trials of the sweep that it represents; above 1 if it is one of a sample."""
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    """All active hyperparameters."""
    searched: tuple[str, ...] = ()
    """The hyperparameters that the first sweep with its configuration varied."""
    corpus: str = ""
    corpus_sha256: str | None = None
    """Hash of the corpus's sentences; None if unknown."""
    dev_identity: str = ""
    code: str | None = None
    """Hash of the method's code; None if unknown."""
    why: str | None = None
    """Why it was stopped early, or does not run now; None if neither is so, or it is unknown."""
    chose: bool = False
    """Whether its value chose its configuration among others, in any sweep, if the query asks."""
    reused_from: str | None = None
    """The sweep that had completed it; None if it ran in this one."""
    results_of: str | None = None
    """The sweep whose results the leaderboard has, if this one has run it too, and not
    reused it; None if these are its own, or the query does not ask.
    """
    wall_seconds: float | None = None
    """Seconds from start to end, over all machines that it ran on."""
    gpu_seconds: float = 0.0
    last_step: int | None = None
    """The step of the last dev point. This and the following fields are set only if the query reads
    them.
    """
    last_value: float | None = None
    """The dev score of the last dev point."""
    first_reported: datetime | None = None
    """The time of its first dev point."""
    points: tuple[DevPoint, ...] = ()
    """The dev curve."""
    measured: dict[str, float | None] = field(default_factory=dict)
    """The metrics of the best step and the test scores that a query asks for, by name."""

    @property
    def gpus(self) -> float:
        """The number of GPUs that it used; a fraction if it shared one."""
        return self.gpu_seconds / self.wall_seconds if self.wall_seconds else 0.0

    def as_record(self) -> dict[str, Any]:
        """Return the fields that commands print as JSON: its place, settings and result."""
        names = [each.name for each in fields(self)]
        return {name: getattr(self, name) for name in names[: names.index("hyperparameters")]}


def select_counting_trials(complete: Sequence[Trial]) -> list[Trial]:
    """Select the complete trials of a configuration that estimate it, if `chose` is known."""
    chose = {trial.seed for trial in complete if trial.chose}
    counted = select_counting_seeds({trial.seed for trial in complete}, chose)
    return [trial for trial in complete if trial.seed in counted]
