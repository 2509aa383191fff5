"""Finds the trials of which runs folders tell different results, and settles whose are kept."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cse_platform.stores.source_journals import SourceJournal, damage_noted
from cse_platform.stores.sql.tables import FREE_METRICS
from cse_platform.tracking.events import (
    Event,
    ModelDeleted,
    TrialCheckpoint,
    TrialEvaluated,
    TrialEvent,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialStarted,
)
from cse_platform.tracking.journal import read_journal

_NOISE = 1e-6
"""The largest difference of values that count as equal, such as those of batches of other sizes; of
values above 1 it is relative."""


@dataclass
class TrialResults:
    """The results that the journals of a runs folder have of a trial."""

    completed: datetime | None = None
    curve: dict[int, float] = field(default_factory=dict)
    best: TrialFinished | TrialReused | None = None
    """The event that completes it."""
    scores: dict[str, tuple[datetime, float]] = field(default_factory=dict)
    """When each score was measured, and the value, by split, task, metric and identity."""
    examples: set[tuple[str, str]] = field(default_factory=set)
    """The tasks and identities of which there are values by example."""

    def add_event(self, event: TrialEvent) -> None:
        """Add what an event of the trial tells; of several attempts, the first complete stays."""
        match event:
            case TrialStarted(resumed_from=None) if self.best is None:
                self.curve = {}
            case TrialPoint() if self.best is None:
                self.curve.setdefault(event.step, event.value)
            case TrialFinished(state="COMPLETE") if self.best is None:
                self.best, self.completed = event, event.time
            case TrialReused() if self.best is None:
                self.best, self.completed, self.curve = event, event.finished, event.curve
            case TrialEvaluated():
                self._add_scores(
                    {
                        f"{s.split}/{s.task}_{s.metric} ({s.identity})": (event.time, s.value)
                        for s in event.scores
                    }
                )
                self.examples |= {(each.task, each.identity) for each in event.examples}

    def merge(self, other: "TrialResults") -> None:
        """Add what another journal of the folder tells."""
        if other.rank > self.rank:
            self.completed, self.curve, self.best = other.completed, other.curve, other.best
        self._add_scores(other.scores)
        self.examples |= other.examples

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key, as the leaderboard ranks attempts: the one that was complete first is the
        highest, then that which went furthest.
        """
        if self.completed is not None:
            return True, -self.completed.timestamp()
        return False, max(self.curve, default=-1)

    def _add_scores(self, scores: Mapping[str, tuple[datetime, float]]) -> None:
        for name, measured in scores.items():
            self.scores[name] = max(self.scores.get(name, measured), measured)

    @property
    def dev(self) -> dict[str, float]:
        """The values of the attempt, by name."""
        values = {f"dev at step {step}": value for step, value in self.curve.items()}
        if self.best is not None:
            own = {name: v for name, v in self.best.best_metrics.items() if name.startswith("dev/")}
            best = self.best.best_value
            values = ({} if best is None else {"best dev": best}) | values | own
        return values

    @property
    def test(self) -> dict[str, float]:
        """The scores of evaluations, by name."""
        return {name: value for name, (_, value) in self.scores.items()}


@dataclass(frozen=True)
class Disagreement:
    """A trial of which two runs folders tell different values."""

    trial: str
    name: str
    """The first value that differs."""
    kept: float
    kept_in: Path
    left: float
    left_in: Path

    @property
    def is_fraction(self) -> bool:
        return not self.name.partition(" ")[0].endswith(FREE_METRICS)


_OF_RESULTS = (TrialPoint, TrialCheckpoint, TrialFinished, ModelDeleted, TrialEvaluated)


class Disagreements:
    """The disagreements between runs folders.

    The first of the `folders` that has completed a trial keeps its attempt, and the first that has
    a score keeps that score; with `prefer_theirs`, the very first comes last. There are no
    disagreements without folders.
    """

    def __init__(
        self,
        journals: Sequence[SourceJournal] = (),
        folders: Sequence[Path] = (),
        *,
        prefer_theirs: bool = False,
    ) -> None:
        self.disagreements: list[Disagreement] = []
        """One for each trial and folder whose results are left out."""
        self._attempts: dict[tuple[Path, str], TrialResults] = {}
        """What is kept in the place of the attempts that are left out, by folder and trial."""
        self._evaluations = set[tuple[Path, str]]()
        """Folders and trials whose evaluations are left out."""
        self._examples: dict[tuple[str, str, str], Path] = {}
        """The folders whose values by example are kept, by trial, task and identity."""
        if prefer_theirs:
            folders = [*folders[1:], folders[0]]
        if len({*folders}) > 1:
            for trial, results in _read_results(journals).items():
                self._settle_trial(
                    trial, {folder: results[folder] for folder in folders if folder in results}
                )

    def _settle_trial(self, trial: str, results: Mapping[Path, TrialResults]) -> None:
        complete = [folder for folder, own in results.items() if own.completed is not None]
        if rivals := complete or [folder for folder in results if results[folder].curve]:
            keeper, *others = rivals
            for folder in others:
                if self._note_difference(
                    trial, {keeper: results[keeper].dev}, folder, results[folder].dev
                ):
                    self._attempts[folder, trial] = results[keeper]
        kept: dict[Path, Mapping[str, float]] = {}
        for folder, own in results.items():
            if (folder, trial) not in self._attempts:
                if self._note_difference(trial, kept, folder, own.test):
                    self._evaluations.add((folder, trial))
                else:
                    kept[folder] = own.test
                    for name in own.examples:
                        self._examples.setdefault((trial, *name), folder)

    def _note_difference(
        self,
        trial: str,
        kept: Mapping[Path, Mapping[str, float]],
        folder: Path,
        values: Mapping[str, float],
    ) -> bool:
        """Note the first of a folder's values that differs from what is kept of others.

        Differences of floating point do not count.
        """
        for keeper, own in kept.items():
            for name in (name for name in own if name in values):
                kept_value, value = own[name], values[name]
                are_equal = math.isclose(kept_value, value, rel_tol=_NOISE, abs_tol=_NOISE)
                if not are_equal and not (math.isnan(kept_value) and math.isnan(value)):
                    self.disagreements.append(
                        Disagreement(trial, name, kept_value, keeper, value, folder)
                    )
                    return True
        return False

    def make_change(self, journal: SourceJournal) -> Callable[[int, Event], Event | None]:
        """Make the function that is applied to each event of a journal and the offset of its end.

        It replaces the names of sweeps, and returns None for what is left out. The start of a trial
        stays, which links it to its sweep.
        """
        if not (self._attempts or self._evaluations or self._examples):
            return lambda _, event: journal.rename(event)

        def change(end: int, event: Event) -> Event | None:
            if isinstance(event, TrialEvent):
                folder = journal.folder_at(end)
                kept = self._attempts.get((folder, event.trial))
                if kept is not None and isinstance(event, _OF_RESULTS):
                    return None
                if isinstance(event, TrialEvaluated):
                    if (folder, event.trial) in self._evaluations:
                        return None
                    own = [
                        each
                        for each in event.examples
                        if self._examples.get((event.trial, each.task, each.identity), folder)
                        == folder
                    ]
                    event = event.model_copy(update={"examples": tuple(own)})
                if kept is not None and kept.best is not None and isinstance(event, TrialReused):
                    names = ("best_step", "best_value", "best_metrics")
                    best = {name: getattr(kept.best, name) for name in names}
                    event = event.model_copy(update={**best, "curve": kept.curve, "model": None})
            return journal.rename(event)

        return change


def _read_results(journals: Sequence[SourceJournal]) -> Mapping[str, Mapping[Path, TrialResults]]:
    """Read what the journals tell of the trials that several folders have, by trial and folder."""
    folders_of = defaultdict[str, set[Path]](set)
    for journal in journals:
        for end, event in _read_trials(journal):
            folders_of[event.trial].add(journal.folder_at(end))
    shared = {trial for trial, folders in folders_of.items() if len(folders) > 1}
    by_trial = defaultdict[str, dict[Path, TrialResults]](dict)
    for journal in journals if shared else ():
        results = defaultdict[tuple[str, Path], TrialResults](TrialResults)
        for end, event in _read_trials(journal, shared):
            for folder in {journal.folder_at(end), journal.runs}:
                results[event.trial, folder].add_event(event)
        for (trial, folder), own in results.items():
            by_trial[trial].setdefault(folder, TrialResults()).merge(own)
    return by_trial


def _read_trials(
    journal: SourceJournal, trials: Collection[str] | None = None
) -> Iterator[tuple[int, TrialEvent]]:
    """Yield the events of trials; what is damaged is named when the journal is applied."""
    with damage_noted({}, journal.path):
        for end, event in read_journal(journal.path):
            if isinstance(event, TrialEvent) and (trials is None or event.trial in trials):
                yield end, event
