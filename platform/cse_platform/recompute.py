"""Compute clean scores of past trials from their stored similarities, without encoding anything.

Each use of a trial's test scores is recorded as test access, as if it were evaluated again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.overlap import choosing_pairs
from cse_methods.data.pairs import PairSet
from cse_methods.errors import DataError
from cse_methods.evaluation.clean import find_left_out
from cse_methods.evaluation.evaluate import score_again
from cse_methods.evaluation.results import Similarities
from cse_methods.evaluation.test_sets.availability import missing_tests
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.tasks import STS_TASKS, Tasks
from cse_platform.leaderboard.clean_scores import (
    StoredTask,
    UncleanTrial,
    find_trials_without_similarities,
    find_unclean_trials,
    read_similarities,
)
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.store import open_store
from cse_platform.leaderboard.trials import BUILTIN
from cse_platform.scoring import refuse_unrecorded
from cse_platform.tracking.events import TestAccessed, TrialEvaluated
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.packing import accessed_source, evaluation_event
from cse_platform.tracking.provenance import user_and_host
from cse_platform.tracking.recorder import FLUSH_SECONDS, Recorder

JOURNAL = "recompute.jsonl"
"""The journal's name in the folder of evaluations' journals; only the leaderboard reads it."""
BATCH = 200
"""Number of trials whose test access is recorded, and whose similarities are loaded, at once."""
ALL_STS = Tasks(sts=STS_TASKS)

LeftOutRows = Mapping[str, NDArray[np.bool_]]
"""The mask of left-out rows by task."""


@dataclass
class Recomputed:
    """The results of a call of `recompute`."""

    trials: int = 0
    """Number of trials that got clean scores."""
    refused: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The keys of trials that could not get clean scores, by reason."""
    without_similarities: list[str] = field(default_factory=list)
    """The keys of trials with test scores but without stored similarities."""


def recompute(
    url: str,
    *,
    runs: Path,
    data: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Recomputed:
    """Compute clean scores of all trials whose stored similarities have none yet.

    Trials that have clean scores are skipped, so a call that was cut short continues where it
    stopped. Test access is recorded before the test sets are opened, for a batch of trials at a
    time. MLflow is not changed.

    Args:
        url: the URL of the leaderboard.
        runs: the runs folder with the journal.
        data: where sets that are not built in are read: `hub`, a folder, or None for CSE_DATA.
        progress: called with the number of trials done, and the total.

    Raises:
        StoreError: if there is no leaderboard, or it does not record the test access.
        JournalError: if another call is writing to the journal.
        DataError: if the test sets cannot be read.
    """
    journal = runs.absolute() / "evaluations" / JOURNAL
    with open_store(url, create=False) as board:
        with board.session() as session:
            waiting = find_unclean_trials(session)
            done = Recomputed(without_similarities=find_trials_without_similarities(session))
        sources = {_choose_data(one, data) for trial in waiting for one in trial.tasks}
        for source in sources:
            missing_tests(ALL_STS, source)  # raise for missing data before anything is recorded
        if not waiting:
            return done
        rows, told = _RowsLeftOut(data), set[str]()
        with Journal(journal) as log, Recorder(log, [LeaderboardSink(board)]) as recorder:
            for start in range(0, len(waiting), BATCH):
                batch = waiting[start : start + BATCH]
                for trial in batch:
                    for source in {_choose_data(one, data) for one in trial.tasks}:
                        recorder.record(_make_access(trial, source))
                refuse_unrecorded(recorder.flush(FLUSH_SECONDS, only=LeaderboardSink.name))
                rows.load_sets(sources)
                with board.session() as session:
                    similarities = read_similarities(session, batch)
                for trial in batch:
                    try:
                        events = _score_trial(trial, similarities[trial.key], rows)
                    except DataError as problem:
                        done.refused[str(problem)].append(trial.key)
                        continue
                    for event in events:
                        recorder.record(_without_known_identities(event, told))
                    done.trials += 1
                refuse_unrecorded(recorder.flush(FLUSH_SECONDS, only=LeaderboardSink.name))
                progress(start + len(batch), len(waiting))
    return done


def _choose_data(stored: StoredTask, data: str | None) -> str | None:
    """Choose the `data` setting by which the data of stored similarities is read again."""
    return BUILTIN if stored.source == BUILTIN else data


def _make_access(trial: UncleanTrial, data: str | None) -> TestAccessed:
    return TestAccessed(
        sweep=trial.sweep,
        trial=trial.key,
        tasks=ALL_STS.names,
        source=accessed_source(ALL_STS, data),
        who=user_and_host(),
        command="cse-leaderboard",
    )


def _score_trial(
    trial: UncleanTrial, similarities: Sequence[Similarities], rows: "_RowsLeftOut"
) -> list[TrialEvaluated]:
    """Score a trial, with an evaluation for each way of reading texts and each data source."""
    stored = {(one.task, one.identity): one for one in trial.tasks}
    groups: dict[tuple[str, str | None], list[Similarities]] = defaultdict(list)
    for found in similarities:
        own = stored[found.task, found.identity]
        groups[repr(sorted(own.settings["reading"].items())), own.source].append(found)
    events = []
    for (_, source), group in groups.items():
        own_tasks = [stored[found.task, found.identity] for found in group]
        masks = rows.of(trial, own_tasks)
        identities = {one.identity: one.settings for one in own_tasks}
        evaluation = score_again(group, identities, masks)
        of = {"sweep": trial.sweep, "trial": trial.key}
        events.append(evaluation_event(**of, evaluation=evaluation, source=source or ""))
    return events


def _without_known_identities(event: TrialEvaluated, told: set[str]) -> TrialEvaluated:
    """Remove the identities that an earlier event has already brought to the store."""
    new = {name: parts for name, parts in event.identities.items() if name not in told}
    told.update(new)
    return event.model_copy(update={"identities": new})


class _RowsLeftOut:
    """The rows that clean scores leave out, cached for trials chosen on the same dev sets."""

    def __init__(self, data: str | None) -> None:
        self._data = data
        self._sets: dict[str | None, dict[str, PairSet]] = {}
        self._masks: dict[tuple[str, str | None], LeftOutRows] = {}

    def of(self, trial: UncleanTrial, stored: Sequence[StoredTask]) -> LeftOutRows:
        """Find the rows of each task that the clean scores of a trial leave out.

        Raises:
            DataError: if a dev set cannot be read, or a test set has changed since the evaluation.
        """
        data = _choose_data(stored[0], self._data)
        for one in stored:
            pairs = self._sets[data][one.task]
            if one.data_sha256 != pairs.sha256:
                raise DataError(
                    f"{one.task} is not the data that was scored (sha256 {pairs.sha256[:12]}, "
                    f"expected {one.data_sha256[:12]}); name that by --data"
                )
        dev_data = BUILTIN if trial.dev_source == BUILTIN else self._data
        training = trial.training.model_copy(update={"data": dev_data})
        key = (training.model_dump_json(include={"dev", "chosen_on", "data"}), data)
        if key not in self._masks:
            sets = list(self._sets[data].values())
            self._masks[key] = find_left_out(sets, choosing_pairs(training))
        return self._masks[key]

    def load_sets(self, sources: Iterable[str | None]) -> None:
        """Open the test sets for each of these `data` settings, unless they are open.

        Raises:
            DataError: if one of them cannot be read.
        """
        for data in sources:
            if data not in self._sets:
                self._sets[data] = {task: load_pair_set(task, data) for task in STS_TASKS}
