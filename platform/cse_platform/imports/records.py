"""Adds trials that ran elsewhere to the leaderboard as events, each only once."""

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from cse_methods.data.dev_selection import DevTask, dev_metric
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.errors import ImportRefusedError
from cse_platform.leaderboard.trials import stored_trials
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import next_number, sweep_or_none
from cse_platform.stores.sql.tables import SweepRecord, TrialRecord
from cse_platform.stores.sql.trial_events import Rank, rank, rank_shown
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.stores import import_journal
from cse_platform.tracking.events import (
    IMPORTED,
    Event,
    SweepFinished,
    SweepStarted,
    TrialEvaluated,
    TrialFinished,
    TrialPoint,
    TrialScore,
    TrialStarted,
    TrialState,
)
from cse_platform.tracking.journal import Journal, read_journal, read_journal_id, refuse_deleted

SCORED_BY = dict.fromkeys((*STS_TASKS, AVG_STS), "spearman") | dict.fromkeys(
    (*TRANSFER_TASKS, AVG_TRANSFER, *LONG_TASKS), "accuracy"
)
"""The main metric of each task."""

AVERAGES = {AVG_STS: STS_TASKS, AVG_TRANSFER: TRANSFER_TASKS}

RECORD = "imported_record"
"""Key in a trial's provenance: the run or file that it was imported from."""

TEST_IDENTITY = canonical_hash([IMPORTED, "test"])


@dataclass(frozen=True)
class ImportedPoint:
    step: int
    time: datetime
    metrics: dict[str, float]
    """Metrics by our names; correlations and accuracies are fractions."""


@dataclass(frozen=True)
class ImportedTrial:
    """A run of another training script, in our terms."""

    name: str
    """Its name in messages."""
    sweep_name: str
    """The name of the import's sweep. Trials of different sweeps may have used different code and
    data, so they never share a row.
    """
    method: str
    backbone: str
    values: dict[str, Any]
    searched: tuple[str, ...]
    seed: int
    dev: DevTask
    state: TrialState
    started: datetime
    finished: datetime
    provenance: dict[str, str]
    """Provenance of the trial, including `imported_record`."""
    points: tuple[ImportedPoint, ...] = ()
    final: dict[str, float] = field(default_factory=dict)
    """Dev metrics that were logged without a step."""
    scores: dict[str, float] = field(default_factory=dict)
    """Test scores by task, as fractions."""
    error: str | None = None
    wall_seconds: float | None = None

    @cached_property
    def configuration(self) -> str:
        """Hash of all that is known of the trial but its seed; no trial of our own has the same."""
        known = [IMPORTED, self.method, self.backbone, self.values, self.dev, self.sweep_name]
        return canonical_hash(known)

    @cached_property
    def key(self) -> str:
        """Key of the trial; runs that are attempts at the same trial share it."""
        return canonical_hash([IMPORTED, self.configuration, self.seed])

    @property
    def record(self) -> str:
        return self.provenance[RECORD]

    @property
    def best(self) -> tuple[int | None, dict[str, float]]:
        """Step and metrics of the best dev score among trained steps; the earliest step on ties.

        If there is none, the step is None and the metrics are those logged without a step.
        """
        name = dev_metric(self.dev)
        trained = [p for p in self.points if p.step > 0 and math.isfinite(p.metrics[name])]
        if not trained:
            return None, self.final
        best = max(trained, key=lambda point: (point.metrics[name], -point.step))
        return best.step, best.metrics

    @property
    def identity(self) -> dict[str, str]:
        """The record of its dev set on the leaderboard.

        Its identity makes a sweep's imports of one dev task comparable with each other, but not
        with those of other sweeps or with our own trials.
        """
        return {
            "checkpoint": self.dev,
            "search": self.dev,
            "identity": canonical_hash([IMPORTED, "dev", self.dev, self.sweep_name]),
            "source": IMPORTED,
            "corpus": IMPORTED,
        }

    def events(self, sweep: str, number: int) -> Iterator[Event]:
        of = {"sweep": sweep, "trial": self.key}
        yield TrialStarted(
            **of,
            time=self.started,
            number=number,
            role="search",
            search_number=None,
            seed=self.seed,
            method=self.method,
            revision=0,
            backbone=self.backbone,
            configuration=self.configuration,
            values=self.values,
            searched=self.searched,
            dev=self.identity,
        )
        name = dev_metric(self.dev)
        for point in self.points:
            value, metrics = point.metrics[name], point.metrics
            yield TrialPoint(**of, time=point.time, step=point.step, value=value, metrics=metrics)
        step, best = self.best
        yield TrialFinished(
            **of,
            time=self.finished,
            state=self.state,
            best_step=step,
            best_value=best.get(name),
            best_metrics=best,
            error=self.error,
            wall_seconds=self.wall_seconds,
            provenance=self.provenance,
        )
        if self.scores:
            yield self.evaluation(sweep)

    def evaluation(self, sweep: str) -> TrialEvaluated:
        """Make the event of its test scores."""
        means = {
            average: sum(self.scores[task] for task in tasks) / len(tasks)
            for average, tasks in AVERAGES.items()
            if self.scores.keys() >= set(tasks)
        }
        scores = tuple(
            TrialScore(
                task=task, split="test", metric=SCORED_BY[task], value=value, identity=TEST_IDENTITY
            )
            for task, value in (means | self.scores).items()
        )
        return TrialEvaluated(
            time=self.finished,
            sweep=sweep,
            trial=self.key,
            tasks=tuple(sorted(self.scores)),
            settings=IMPORTED,
            source=IMPORTED,
            scores=scores,
            similarities=(),
            identities={TEST_IDENTITY: {"source": IMPORTED}},
            seconds={},
        )


_Trials = Sequence[ImportedTrial]


@dataclass(frozen=True)
class Imported:
    """Counts of an import."""

    new: int
    """Trials that are new, or better attempts at incomplete ones."""
    already_here: int
    """Trials that were already on the leaderboard."""
    gave_way: int
    """Attempts at a trial that were dropped for a better one."""


def refuse_rivals(sweeps: Mapping[str, _Trials]) -> None:
    """Raise ImportRefusedError if several complete records are attempts at the same trial."""
    problems = [
        _describe_rivals(complete, tries[0].seed)
        for trials in sweeps.values()
        for tries in _group_attempts(trials).values()
        if len(complete := _find_complete(tries)) > 1
    ]
    _refuse_problems(problems)


def apply_trials(
    board: Store, sweeps: Mapping[str, _Trials], *, source: str, runs: Path
) -> Imported:
    """Add trials to the journals of imports in a runs folder, and from there to the leaderboard.

    Others can write between slices. Nothing is written if anything is refused; an import that was
    interrupted is completed by running it again. Of the attempts at a trial, a complete one is
    shown, else the one that came furthest.

    All trials of a sweep have one method and backbone, and no rivals. `source` is where they come
    from, without passwords. Raises ImportRefusedError if a complete record is of a trial that
    another record has completed on the leaderboard, or a sweep's name is taken by another sweep;
    JournalError if a journal cannot be written.
    """
    problems: list[str] = []
    events: dict[Path, list[Event]] = {}

    def pause(_end: int) -> None:
        board.let_others_write()

    new = chosen = 0
    for sweep, trials in sweeps.items():
        journal = import_journal(runs.absolute(), sweep)
        refuse_deleted(journal)
        if journal.exists():
            # What an interrupted import has left there comes first.
            apply_journal(LeaderboardSink(board, file=journal), journal, pause)
        attempts = _group_attempts(trials)
        with board.session() as session:
            stored = stored_trials(session, [*attempts])
            taken = sweep_or_none(session, sweep)
            problems += _find_name_problems(taken, sweep, trials[0], journal)
            first = next_number(session, sweep)
            shown = rank_shown(session, [*stored.values()])
        problems += _find_rival_problems(stored, attempts)
        fresh = _select_fresh(stored, shown, attempts)
        chosen, new = chosen + len(attempts), new + len(fresh)
        events[journal] = [*_iter_events(sweep, fresh, first, source)]
        if taken is not None and taken.state == "RUNNING" and journal.exists():
            end = [] if fresh else [_finish(sweep, trials)]
            events[journal] = [*_iter_lacking(journal, attempts), *events[journal], *end]
    _refuse_problems(problems)
    for path, some in events.items():
        if some:
            with Journal(path) as written:
                for event in some:
                    written.append(event)
            apply_journal(LeaderboardSink(board, file=path), path, pause)
    total = sum(map(len, sweeps.values()))
    return Imported(new=new, already_here=chosen - new, gave_way=total - chosen)


def _group_attempts(trials: _Trials) -> dict[str, list[ImportedTrial]]:
    """Group attempts by key, best attempt first."""
    attempts: dict[str, list[ImportedTrial]] = defaultdict(list)
    ranked = sorted(trials, key=lambda trial: trial.started)
    for trial in sorted(ranked, key=_rank_trial, reverse=True):
        attempts[trial.key].append(trial)
    return attempts


def _find_name_problems(
    taken: SweepRecord | None, sweep: str, example: ImportedTrial, journal: Path
) -> Iterator[str]:
    mine = (IMPORTED, example.method, example.backbone)
    if taken and (taken.spec.get("source"), taken.method, taken.backbone) != mine:
        yield (
            f"sweep {sweep!r} on this leaderboard is another one "
            f"({taken.method} on {taken.backbone}); write another name"
        )
    elif taken and taken.journal != (read_journal_id(journal) if journal.exists() else ""):
        yield (
            f"the journal of sweep {sweep!r} is not {journal}; name the runs folder with it by "
            "--runs, or write another name, or, if it is lost, take the sweep off the leaderboard: "
            f"cse-leaderboard rebuild --without {sweep}"
        )


def _find_rival_problems(
    stored: Mapping[str, TrialRecord], attempts: Mapping[str, _Trials]
) -> Iterator[str]:
    for key, tries in attempts.items():
        complete = _find_complete(tries)
        if complete and key in stored and stored[key].state == "COMPLETE":
            record = stored[key].provenance[RECORD]
            complete.setdefault(record, f"{record}, which is on the leaderboard,")
        if len(complete) > 1:
            yield _describe_rivals(complete, tries[0].seed)


def _find_complete(tries: _Trials) -> dict[str, str]:
    """Find the names of complete attempts by record; copies of a record are not rivals."""
    return {trial.record: trial.name for trial in tries if trial.state == "COMPLETE"}


def _describe_rivals(complete: Mapping[str, str], seed: int) -> str:
    return (
        f"{' and '.join(complete.values())} are all complete, with seed {seed} and equal "
        "hyperparameters; leave all but one out, or name the hyperparameter that tells them apart"
    )


def _refuse_problems(problems: Sequence[str]) -> None:
    if problems:
        raise ImportRefusedError("\n  ".join(["nothing is imported:", *problems]))


def _select_fresh(
    stored: Mapping[str, TrialRecord], shown: Mapping[str, Rank], attempts: Mapping[str, _Trials]
) -> list[ImportedTrial]:
    """Select the trials that are new or better than the leaderboard's, oldest first.

    One that is running there is new, too: the import that began it was interrupted.
    """
    fresh = []
    for key, (trial, *_) in attempts.items():
        known = stored.get(key)
        if (
            known is None
            or known.state == "RUNNING"
            or (known.state != "COMPLETE" and _rank_trial(trial) > shown[known.key])
        ):
            fresh.append(trial)
    return sorted(fresh, key=lambda trial: (trial.started, trial.key))


def _iter_lacking(journal: Path, attempts: Mapping[str, _Trials]) -> Iterator[Event]:
    """Yield the evaluation that an interrupted import has not written after its last trial."""
    for _, last in deque(read_journal(journal), maxlen=1):
        if isinstance(last, TrialFinished):
            for trial in attempts.get(last.trial, ()):
                if trial.scores and trial.record == last.provenance.get(RECORD):
                    yield trial.evaluation(last.sweep)


def _rank_trial(trial: ImportedTrial) -> Rank:
    reached = max((point.step for point in trial.points), default=None)
    completed = trial.finished if trial.state == "COMPLETE" else None
    return rank(reached, completed)


def _iter_events(sweep: str, trials: _Trials, first: int, source: str) -> Iterator[Event]:
    if not trials:
        return
    first_trial = trials[0]
    dev = {"checkpoint": first_trial.dev, "search": first_trial.dev}
    encoder = {"method": first_trial.method, "backbone": first_trial.backbone}
    yield SweepStarted(
        time=first_trial.started,
        sweep=sweep,
        **encoder,
        spec={"sweep": sweep, "source": IMPORTED, **encoder, "dev": dev},
        provenance={"imported_from": source},
    )
    for number, trial in enumerate(trials, first):
        yield from trial.events(sweep, number)
    yield _finish(sweep, trials)


def _finish(sweep: str, trials: _Trials) -> SweepFinished:
    return SweepFinished(
        time=max(trial.finished for trial in trials), sweep=sweep, state="COMPLETE"
    )
