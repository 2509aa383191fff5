"""Everything that the leaderboard stores about one trial. Scores are fractions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager, joinedload, selectinload

from cse_methods.tasks import DATA_METRICS
from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.board import (
    as_configuration,
    dev_set,
    estimate_dev,
    read_annotations,
    read_seen_sentences,
)
from cse_platform.leaderboard.families import COLUMN_METRICS, SCORE_COLUMNS
from cse_platform.leaderboard.records import (
    Annotations,
    Configuration,
    DevPoint,
    DevSets,
    Estimate,
    SeenSentences,
    Trained,
    Trial,
)
from cse_platform.leaderboard.seed_scores import read_evaluations
from cse_platform.leaderboard.trials import (
    FIRST_LINK,
    best_columns,
    dev_curves,
    find_one_trial,
    read_trials,
)
from cse_platform.stores.sql.estimates import CHOSE
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    ExampleSetRecord,
    ExampleValuesRecord,
    ScoreRecord,
    SweepLeaseRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
    find_sweep,
)
from cse_platform.tracking.events import IMPORTED_FROM, MAIN_METRICS, RECORDED_FROM, TrialScore
from cse_platform.tracking.packing import unpack_gold, unpack_values
from cse_platform.values import canonical_json

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Examples, Split
    from cse_methods.tasks import Statistic

_MAIN = MAIN_METRICS | set(COLUMN_METRICS)


@dataclass(frozen=True)
class SweepEntry:
    """A sweep that holds the trial."""

    sweep: str
    number: int
    role: str
    host: str | None = None
    """The host of its current or last driver; None if it never ran on this leaderboard."""
    folder: str | None = None
    """The folder of its journal on that host."""


@dataclass(frozen=True)
class SweepStart:
    """One start of a sweep, with the code and the machine of the trials that it ran."""

    sweep: str
    started: datetime
    provenance: dict[str, str]
    packages: dict[str, str]
    """Version of every installed distribution, by name; empty if not recorded."""
    diffs: dict[str, str]
    """Diffs of the code against its commit: `git` for the user's repository, and `package`."""


@dataclass(frozen=True)
class TrialDetails(Trained):
    """Everything that the leaderboard stores about one trial."""

    key: str
    method: str
    revision: int
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
    """Its costs by name as in `COSTS`, and `epochs`; unknown ones are absent."""
    gpu_hours: float
    machine: str | None
    """Host and hardware."""
    best_step: int | None
    best_value: float | None
    untrained: float | None
    model: str | None
    """Location of the best checkpoint."""
    model_deleted: datetime | None
    """When the sweep deleted the model; None if it did not."""
    provenance: dict[str, str]
    sweeps: tuple[SweepEntry, ...]
    """The sweeps that hold it, in the order of their first starts."""
    tags: tuple[str, ...]
    """Tags of the trial, of its configuration and of its sweeps."""
    written: Annotations
    of_configuration: Annotations
    starts: tuple[SweepStart, ...]
    """The starts of the sweep that ran it: the last one at or before the trial's start, then
    further ones before its end, at which it was resumed; of a recorded run, its own alone. Empty if
    no start is known.
    """
    spec: dict[str, Any]
    """The file of the sweep that ran it, as JSON."""
    curve: tuple[DevPoint, ...]
    scores: tuple[TrialScore, ...]
    """Scores on dev at the best step, and on test."""
    seen: tuple[SeenSentences, ...]
    """How many test and dev sentences its configuration has seen; empty if not counted."""
    test_accesses: tuple[dict[str, Any], ...]
    """When test sets were opened for this trial, by whom, with which command, tasks and source."""
    siblings: tuple[Trial, ...]
    """Trials of the same configuration with other seeds, by seed."""
    over_seeds: Estimate | None
    """The dev score of the configuration over its complete seeds; None without one."""

    @property
    def start_facts(self) -> Mapping[str, str]:
        """The provenance of the start that began it; empty if no start is known."""
        return self.starts[0].provenance if self.starts else {}

    @property
    def origin(self) -> str | None:
        """How it came here, in words, if no sweep has run it: imported or recorded."""
        if IMPORTED_FROM in self.start_facts:
            return f"imported from {self.start_facts[IMPORTED_FROM]}"
        if RECORDED_FROM in self.start_facts:
            return f"recorded by {self.start_facts[RECORDED_FROM]}"
        return None

    @property
    def main_scores(self) -> tuple[TrialScore, ...]:
        """The scores that papers report: Spearman's rho, accuracy, KCC, NDCG, and clean scores."""
        return tuple(score for score in self.scores if score.metric in _MAIN)

    def as_record(self) -> dict[str, Any]:
        """Return the fields that `cse-leaderboard show --json` prints."""
        columns = ("key", "seed", "best_value", "state")
        siblings = [{name: getattr(each, name) for name in columns} for each in self.siblings]
        return asdict(self) | {
            "marks": self.marks,
            "scores": [score.model_dump() for score in self.scores],
            "siblings": siblings,
        }


_OF_TRIAL = (
    *("key", "seed", "method", "backbone", "corpus", "state", "error", "started", "finished"),
    *("wall_seconds", "best_step", "best_value", "model"),
)
_ACCESS = ("opened", "who", "command", "tasks", "source")
_WITH_ALL = (
    joinedload(TrialRecord.configuration).joinedload(ConfigurationRecord.group),
    joinedload(TrialRecord.shown).joinedload(AttemptRecord.machine),
    selectinload(TrialRecord.links)
    .joinedload(SweepTrialRecord.sweep)
    .options(selectinload(SweepRecord.starts), selectinload(SweepRecord.tags)),
    selectinload(TrialRecord.scores),
    selectinload(TrialRecord.test_accesses),
)


def read_trial(session: Session, trial: str) -> TrialDetails:
    """Everything about one trial: settings, provenance, dev curve, scores, its other seeds.

    Raises NotFoundError if the reference names no trial, AmbiguousError if it names several.
    """
    key = find_one_trial(session, trial).key
    query = select(TrialRecord).where(TrialRecord.key == key).options(*_WITH_ALL)
    record = session.scalars(query).one()
    configuration, attempt, machine = record.configuration, record.shown, record.shown.machine
    sweeps = [link.sweep for link in record.links]
    starts = _find_starts(attempt, sweeps)
    written = read_annotations(session, "trial", [key])
    of_configuration = read_annotations(session, "configuration", [configuration.hash])
    of_sweeps = read_annotations(session, "sweep", [sweep.name for sweep in sweeps])
    tags = {tag.tag for sweep in sweeps for tag in sweep.tags}
    for annotated in (written, of_configuration, of_sweeps):
        tags.update(word for notes in annotated.values() for word in notes.tag_names)
    scores = {
        (score.split, score.task, score.metric, score.identity): score
        for score in record.scores
        if score.metric not in DATA_METRICS
    }

    def sort_key(score: ScoreRecord) -> tuple[Any, ...]:
        """Sort by split; then tasks of known families by name, and others as they were scored."""
        position = -1 if score.task in SCORE_COLUMNS else score.place
        return score.split, position, score.task, score.metric, score.identity

    seeds = read_trials(
        session,
        FIRST_LINK,
        TrialRecord.configuration_id == configuration.id,
        order=(TrialRecord.seed, TrialRecord.id),
        chose=CHOSE,
        **best_columns(sweeps[0]),
    )
    own = next(trial for trial in seeds if trial.key == key)
    complete = [trial for trial in seeds if trial.state == "COMPLETE"]
    values = {trial.seed: trial.best_value or 0.0 for trial in complete}
    chose = {trial.seed for trial in complete if trial.chose}
    return TrialDetails(
        **{name: getattr(own, name) for name in _OF_TRIAL},
        costs=attempt.costs,
        model_deleted=attempt.model_deleted,
        tags=tuple(sorted(tags)),
        written=written.get(key, Annotations()),
        of_configuration=of_configuration.get(configuration.hash, Annotations()),
        provenance=_format_facts(attempt.provenance),
        revision=configuration.revision,
        configuration=as_configuration(configuration),
        dev=dev_set(configuration.group),
        gpu_hours=record.gpu_seconds / 3600,
        machine=f"{machine.host} · {machine.hardware}" if machine else None,
        untrained=attempt.start_value,
        sweeps=_read_entries(session, record),
        starts=starts,
        spec=next(s.spec for s in sweeps if not starts or s.name == starts[0].sweep),
        curve=tuple(dev_curves(session, [key])[key]),
        scores=tuple(
            TrialScore.model_validate(score, from_attributes=True)
            for score in sorted(scores.values(), key=sort_key)
        ),
        seen=read_seen_sentences(session, [configuration.id]).get(configuration.id, ()),
        test_accesses=tuple(
            {"trial": key, **{name: getattr(each, name) for name in _ACCESS}}
            for each in record.test_accesses
        ),
        siblings=tuple(trial for trial in seeds if trial is not own),
        over_seeds=estimate_dev(values, chose, configuration.group) if values else None,
    )


def _read_entries(session: Session, trial: TrialRecord) -> tuple[SweepEntry, ...]:
    """Read the sweeps that hold a trial, with the hosts and folders of their drivers."""
    links = {link.sweep.name: link for link in trial.links}
    drivers = select(SweepLeaseRecord).where(SweepLeaseRecord.sweep.in_(links))
    leases = {lease.sweep: (lease.host, lease.folder) for lease in session.scalars(drivers)}
    return tuple(
        SweepEntry(name, link.number, link.role, *leases.get(name, (None, None)))
        for name, link in links.items()
    )


def read_neighbours(session: Session, sweep: str, number: int) -> tuple[Trial | None, Trial | None]:
    """The trials of a sweep before and after a number; None where there is no such trial."""
    other = SweepTrialRecord.number
    of_sweep = SweepTrialRecord.sweep_id == find_sweep(session, sweep).id
    before = read_trials(session, of_sweep, other < number, order=(other.desc(),), limit=1)
    after = read_trials(session, of_sweep, other > number, limit=1)
    return next(iter(before), None), next(iter(after), None)


def read_settings(session: Session, identities: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The settings of evaluations, by identity; unknown ones are absent."""
    return {name: record.settings for name, record in read_evaluations(session, identities).items()}


def read_examples(
    session: Session, trial: str, task: str, identity: str | None = None
) -> "Examples":
    """The values of a trial's score on a task by example, and their gold scores.

    `identity` is that of the evaluation; by default the only one on the task's test set. Raises
    NotFoundError if there is none, AmbiguousError if several evaluations are meant.
    """
    from cse_methods.evaluation.results import Examples

    stored = ExampleValuesRecord
    condition = (
        ExampleSetRecord.split == "test"  # the geometry may have stored STS-B's dev pairs too
        if identity is None
        else stored.identity == identity
    )
    found = find_one_trial(session, trial)
    key = found.key
    query = (
        select(stored)
        .select_from(TrialRecord)
        .join(TrialRecord.examples)
        .join(stored.example_set)
        .options(contains_eager(stored.example_set))
        .where(TrialRecord.key == key, stored.task == task, condition)
        .order_by(stored.measured)
    )
    records = {record.identity: record for record in session.scalars(query)}
    if not records:
        suffix = "" if identity is None else f" under identity {identity!r}"
        how = "; cse-evaluate on the trial stores them"
        if found.model is None:
            how = ", nor a kept model for cse-evaluate to score"
        raise NotFoundError(f"trial {key!r} has no values by example of {task!r}{suffix}{how}")
    if len(records) > 1:
        raise AmbiguousError(
            f"trial {key!r} has values by example of {task!r} under several identities; "
            f"name one of {', '.join(sorted(records))}"
        )
    [record] = records.values()
    of_set = record.example_set
    return Examples(
        task=record.task,
        split=cast("Split", of_set.split),
        identity=record.identity,
        statistic=cast("Statistic", record.statistic),
        values=unpack_values(record.packed),
        gold=None if of_set.gold is None else unpack_gold(of_set.gold),
        subsets=of_set.subsets,
        data_sha256=of_set.data_sha256,
    )


def _format_facts(stored: Any) -> dict[str, str]:
    """Convert the values of stored facts to text.

    The facts can be any JSON, because whoever may write to the database can store some.
    """
    facts = stored if isinstance(stored, dict) else {"stored": stored}
    return {k: v if isinstance(v, str) else canonical_json(v) for k, v in facts.items()}


def _find_starts(attempt: AttemptRecord, sweeps: Sequence[SweepRecord]) -> tuple[SweepStart, ...]:
    """Find the starts that the attempt ran under; see `TrialDetails.starts`.

    Of the sweeps that hold the trial, the one that was started last before it is taken to have run
    it.
    """
    starts = sorted(
        (
            SweepStart(
                sweep.name,
                start.started,
                *map(_format_facts, (start.provenance, start.packages, start.diffs)),
            )
            for sweep in sweeps
            for start in sweep.starts
            if attempt.finished is None or start.started <= attempt.finished
        ),
        key=lambda start: start.started,
    )
    before = [start for start in starts if start.started <= attempt.started]
    if not before:
        return ()
    later = () if RECORDED_FROM in before[-1].provenance else starts[len(before) :]
    return (before[-1], *(start for start in later if start.sweep == before[-1].sweep))
