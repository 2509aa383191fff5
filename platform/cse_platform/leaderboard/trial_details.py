"""Everything that the leaderboard stores about one trial. Scores are fractions."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import select
from sqlalchemy.orm import Session, contains_eager, joinedload, selectinload

from cse_methods.tasks import DATA_METRICS
from cse_platform.errors import AmbiguousError, NotFoundError
from cse_platform.leaderboard.board import (
    annotations,
    as_configuration,
    dev_set,
    read_seen_sentences,
)
from cse_platform.leaderboard.records import (
    COLUMN_METRICS,
    Annotations,
    Configuration,
    DevPoint,
    DevSets,
    LeaderboardRow,
    SeenSentences,
    Trial,
    training_marks,
)
from cse_platform.leaderboard.references import find_one_trial
from cse_platform.leaderboard.trials import FIRST_PLACE, dev_curves, read_trials
from cse_platform.render.formats import HASH_DIGITS
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import find_sweep
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    PairSetRecord,
    PairSimilaritiesRecord,
    SweepLeaseRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.stores import sweep_folder
from cse_platform.sweep.values import canonical_json
from cse_platform.tracking.events import MAIN_METRICS, TrialScore
from cse_platform.tracking.output import output_file
from cse_platform.tracking.packing import unpack_cosines, unpack_gold

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Similarities, Split

MAIN = MAIN_METRICS | set(COLUMN_METRICS)

_WHY_NO_MODEL = {
    "RUNNING": "it is not finished",
    "PRUNED": "it was pruned",
    "FAIL": "it failed",
    "COMPLETE": "its best checkpoint was not kept",
}


@dataclass(frozen=True)
class TestAccess:
    """One opening of test sets."""

    trial: str
    opened: datetime
    who: str
    command: str
    tasks: list[str]
    source: str


@dataclass(frozen=True)
class SweepPlace:
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
class TrialDetails:
    """Everything that the leaderboard stores about one trial."""

    key: str
    method: str
    revision: int
    """The revision of the method."""
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
    """The dev score at step 0."""
    model: str | None
    """Location of the best checkpoint."""
    model_deleted: datetime | None
    """When the sweep deleted the model; None if it did not."""
    provenance: dict[str, str]
    """The provenance of the worker."""
    sweeps: tuple[SweepPlace, ...]
    """The sweeps that hold it, in the order of their first starts."""
    tags: tuple[str, ...]
    """Tags of the trial, of its configuration and of its sweeps."""
    written: Annotations
    """The annotations of this trial."""
    of_configuration: Annotations
    """The annotations of its configuration."""
    starts: tuple[SweepStart, ...]
    """The starts of the sweep that ran it: the last one at or before the trial's start, then
    further ones before its end, at which it was resumed. Empty if no start is known.
    """
    spec: dict[str, Any]
    """The file of the sweep that ran it, as JSON."""
    curve: tuple[DevPoint, ...]
    scores: tuple[TrialScore, ...]
    """Scores on dev at the best step, and on test."""
    seen: tuple[SeenSentences, ...]
    """How many test and dev sentences its configuration has seen; empty if no evaluation has
    counted them.
    """
    test_accesses: tuple[TestAccess, ...]
    """When test sets were opened for this trial."""
    siblings: tuple[Trial, ...]
    """Trials of the same configuration with other seeds, by seed."""
    averages: tuple[Trial, ...] = ()
    """The trials whose weights it averages, by seed, if they are on this leaderboard."""

    @property
    def shown_seed(self) -> str:
        """The seed that it was trained with, or the seeds that it averages, in words."""
        if not self.averages:
            return f"seed {self.seed}"
        seeds = ", ".join(str(trial.seed) for trial in self.averages)
        return f"the average of the weights of seeds {seeds}"

    @property
    def imported_from(self) -> str | None:
        """Source of a trial that was logged by another program; None for our own trials."""
        return self.starts[0].provenance.get("imported_from") if self.starts else None

    def journal_folders(self, runs: Path | None) -> dict[Path, int]:
        """The folders on this machine where its sweeps' journals may be, most likely first, with
        its number there.

        These are the folders that their drivers used, then those below `runs`, for copies.
        """
        folders = {Path(each.folder): each.number for each in self.sweeps if each.folder}
        if runs is not None:
            folders |= {sweep_folder(runs, each.sweep): each.number for each in self.sweeps}
        return folders

    def find_output(self, runs: Path | None) -> Path | None:
        """Find the file of the trial's output; None if it has printed nothing.

        Raises NotFoundError if the trial was imported, or if no journal folder of its sweeps is on
        this machine, so that the file may be elsewhere.
        """
        if self.imported_from is not None:
            raise NotFoundError(
                f"trial {self.key[:HASH_DIGITS]} was imported from {self.imported_from}, without "
                "its output"
            )
        known = self.journal_folders(runs)
        here = [folder for folder in known if os.access(folder, os.X_OK)]
        files = (output_file(folder, known[folder]) for folder in here)
        if file := next(filter(Path.exists, files), None):
            return file
        if here:
            return None
        raise NotFoundError(
            f"the output of trial {self.key[:HASH_DIGITS]} is not here, but beside the journal of "
            f"its sweep, in {self.journal_places}; give the command there"
        )

    @property
    def journal_places(self) -> str:
        """The journal folders of its sweeps and their hosts, in words."""
        known = [f"{p.folder} on {p.host}" for p in self.sweeps if p.folder is not None]
        return " or ".join(known) or "a folder that is not recorded"

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks of how it was trained; see `training_marks`."""
        values = self.configuration.values
        return training_marks(self.method, self.backbone, self.corpus, values, self.seen)

    @property
    def why_no_model(self) -> str:
        """Why `model` is None, in words."""
        if self.imported_from is not None:
            return "it was imported, without its model"
        if self.model_deleted is not None:
            day = f"{self.model_deleted:%Y-%m-%d}"
            return (
                f"it was deleted on {day}, because its sweep keeps only the models of the best "
                "trials"
            )
        return _WHY_NO_MODEL[self.state]

    @property
    def again(self) -> str:
        """What reproducing the trial writes, in words."""
        if self.imported_from is not None:
            return "a sweep file with what is known of it, for a trial with another key"
        return "what trains it again"

    @property
    def main_scores(self) -> tuple[TrialScore, ...]:
        """The scores that papers report: Spearman's rho, accuracy, KCC, NDCG, and clean scores."""
        return tuple(score for score in self.scores if score.metric in MAIN)

    @property
    def complete_values(self) -> dict[int, float]:
        """The dev value of each complete seed of the configuration, this one included."""
        values = {
            sibling.seed: sibling.value for sibling in self.siblings if sibling.state == "COMPLETE"
        }
        if self.state == "COMPLETE":
            values[self.seed] = self.best_value
        return {seed: value for seed, value in sorted(values.items()) if value is not None}

    def as_record(self) -> dict[str, Any]:
        """Return the fields that `cse-leaderboard show --json` prints."""
        names = {"test_accesses": "openings"}
        fields = {names.get(name, name): value for name, value in asdict(self).items()}
        siblings, averages = (
            [{name: getattr(one, name) for name in ("key", "seed", "value", "state")} for one in of]
            for of in (self.siblings, self.averages)
        )
        return fields | {
            "marks": self.marks,
            "scores": [score.model_dump() for score in self.scores],
            "siblings": siblings,
            "averages": averages,
        }


_WITH_ALL = (
    joinedload(TrialRecord.configuration).joinedload(ConfigurationRecord.group),
    joinedload(TrialRecord.machine),
    selectinload(TrialRecord.places)
    .joinedload(SweepTrialRecord.sweep)
    .options(selectinload(SweepRecord.starts), selectinload(SweepRecord.tags)),
    selectinload(TrialRecord.scores),
    selectinload(TrialRecord.test_accesses),
)


class TrialQueries:
    """What a `Leaderboard` answers about single trials.

    A trial is named by its key or its first 6 digits, by SWEEP#N, or as the best one by SWEEP or
    METHOD@CONFIGURATION.
    """

    _store: Store

    def trial(self, trial: str) -> TrialDetails:
        """Everything about one trial: settings, provenance, dev curve, scores, its other seeds.

        Raises:
            NotFoundError: if the reference names no trial.
            AmbiguousError: if it names several.
        """
        with self._store.session() as session:
            key = find_one_trial(session, trial).key
            query = select(TrialRecord).where(TrialRecord.key == key).options(*_WITH_ALL)
            record = session.scalars(query).one()
            configuration, sweeps = record.configuration, [place.sweep for place in record.places]
            scores = sorted(
                (score for score in record.scores if score.metric not in DATA_METRICS),
                key=lambda score: (score.split, score.task, score.metric, score.identity),
            )
            columns = (
                *("key", "seed", "state", "error", "started", "finished", "wall_seconds", "costs"),
                *("best_step", "best_value", "model", "model_deleted"),
            )
            starts = _find_starts(record, sweeps)
            written = annotations(session, "trial", [record.key])
            of_configuration = annotations(session, "configuration", [configuration.hash])
            of_sweeps = annotations(session, "sweep", [sweep.name for sweep in sweeps])
            tags = {tag.tag for sweep in sweeps for tag in sweep.tags}
            for annotated in (written, of_configuration, of_sweeps):
                tags.update(word for each in annotated.values() for word in each.words)
            seeds = TrialRecord.configuration_id == configuration.id, TrialRecord.id != record.id
            averaged = TrialRecord.key.in_(configuration.averages or ())
            by_seed = TrialRecord.seed, TrialRecord.id
            machine = record.machine
            return TrialDetails(
                **{name: getattr(record, name) for name in columns},
                provenance=_format_facts(record.provenance),
                method=configuration.group.method,
                revision=configuration.revision,
                backbone=configuration.group.backbone,
                corpus=configuration.corpus,
                configuration=as_configuration(configuration),
                dev=dev_set(configuration.group),
                gpu_hours=record.gpu_seconds / 3600,
                machine=f"{machine.host} · {machine.hardware}" if machine else None,
                untrained=record.start_value,
                sweeps=_find_places(session, record),
                tags=tuple(sorted(tags)),
                written=written.get(key, Annotations()),
                of_configuration=of_configuration.get(configuration.hash, Annotations()),
                starts=starts,
                spec=next(s.spec for s in sweeps if not starts or s.name == starts[0].sweep),
                curve=tuple(dev_curves(session, [key])[key]),
                scores=tuple(
                    TrialScore.model_validate(score, from_attributes=True) for score in scores
                ),
                seen=read_seen_sentences(session, [configuration.id]).get(configuration.id, ()),
                test_accesses=tuple(
                    TestAccess(key, each.opened, each.who, each.command, each.tasks, each.source)
                    for each in record.test_accesses
                ),
                siblings=tuple(read_trials(session, FIRST_PLACE, *seeds, order=by_seed)),
                averages=tuple(read_trials(session, FIRST_PLACE, averaged, order=by_seed))
                if configuration.averages
                else (),
            )

    def neighbours(self, sweep: str, number: int) -> tuple[Trial | None, Trial | None]:
        """The trials of a sweep before and after a number; None where there is no such trial.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        place = SweepTrialRecord.number
        with self._store.session() as session:
            of_sweep = SweepTrialRecord.sweep_id == find_sweep(session, sweep).id
            before = read_trials(session, of_sweep, place < number, order=(place.desc(),), limit=1)
            after = read_trials(session, of_sweep, place > number, limit=1)
        return next(iter(before), None), next(iter(after), None)

    def dev_curve(self, trial: str) -> list[DevPoint]:
        """The dev curve of a trial, in order of steps. Raises QueryError as `trial` does."""
        with self._store.session() as session:
            key = find_one_trial(session, trial).key
            return dev_curves(session, [key])[key]

    def dev_curves(self, row: LeaderboardRow) -> dict[int, list[DevPoint]]:
        """The dev curves of a row by seed, in the order of its seeds; a curve without points is
        empty.
        """
        with self._store.session() as session:
            curves = dev_curves(session, list(row.keys.values()))
        return {seed: curves[row.keys[seed]] for seed in row.seeds}

    def similarities(self, trial: str, task: str, identity: str | None = None) -> "Similarities":
        """The cosines that a trial gives to the pairs of a task, and their gold scores.

        Args:
            trial: its key, or the first 6 or more digits of it.
            task: one of the STS tasks.
            identity: that of the evaluation; by default the only one on the task's test pairs.

        Raises:
            NotFoundError: if there is no such trial, or no such evaluation of it.
            AmbiguousError: if there are several and no identity is given.
        """
        from cse_methods.evaluation.results import Similarities

        stored = PairSimilaritiesRecord
        which = (
            PairSetRecord.split == "test"  # the geometry may have stored STS-B's dev pairs too
            if identity is None
            else stored.identity == identity
        )
        with self._store.session() as session:
            key = find_one_trial(session, trial).key
            query = (
                select(stored)
                .join(stored.trial)
                .join(stored.pair_set)
                .options(contains_eager(stored.pair_set))
                .where(TrialRecord.key == key, stored.task == task, which)
                .order_by(stored.identity)
            )
            found = session.scalars(query).all()
        if not found:
            under = "" if identity is None else f" under identity {identity!r}"
            raise NotFoundError(
                f"trial {key!r} has no similarities on {task!r}{under}; "
                "cse-evaluate on the trial stores them"
            )
        if len(found) > 1:
            raise AmbiguousError(
                f"trial {key!r} has similarities on {task!r} under several identities; "
                f"name one of {', '.join(record.identity for record in found)}"
            )
        [record] = found
        pairs = record.pair_set
        return Similarities(
            task=record.task,
            split=cast("Split", pairs.split),
            identity=record.identity,
            cosines=unpack_cosines(record.cosines),
            gold=unpack_gold(pairs.gold),
            subsets=pairs.subsets,
            data_sha256=pairs.data_sha256,
        )


def _find_places(session: Session, trial: TrialRecord) -> tuple[SweepPlace, ...]:
    """Find the sweeps that hold a trial, and where their drivers ran."""
    places = {place.sweep.name: place for place in trial.places}
    query = select(SweepLeaseRecord).where(SweepLeaseRecord.sweep.in_(places))
    leases = {lease.sweep: (lease.host, lease.folder) for lease in session.scalars(query)}
    return tuple(
        SweepPlace(name, place.number, place.role, *leases.get(name, (None, None)))
        for name, place in places.items()
    )


def _format_facts(stored: Any) -> dict[str, str]:
    """Convert the values of stored facts to text.

    The facts can be any JSON, because they may come from another leaderboard.
    """
    facts = stored if isinstance(stored, dict) else {"stored": stored}
    return {k: v if isinstance(v, str) else canonical_json(v) for k, v in facts.items()}


def _find_starts(trial: TrialRecord, sweeps: Sequence[SweepRecord]) -> tuple[SweepStart, ...]:
    """Find the starts that the trial ran under; see `TrialDetails.starts`.

    Of the sweeps that hold the trial, the one that was started last before it is taken to have run
    it.
    """
    starts = sorted(
        (
            SweepStart(
                sweep.name,
                start_record.started,
                _format_facts(start_record.provenance),
                _format_facts(start_record.packages),
                _format_facts(start_record.diffs),
            )
            for sweep in sweeps
            for start_record in sweep.starts
            if trial.finished is None or start_record.started <= trial.finished
        ),
        key=lambda start: start.started,
    )
    before = [start for start in starts if start.started <= trial.started]
    if not before:
        return ()
    later = starts[len(before) :]
    return (before[-1], *(start for start in later if start.sweep == before[-1].sweep))
