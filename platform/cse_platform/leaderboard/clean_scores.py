"""Finds stored similarities that have no clean score yet, and the sweeps of their trials."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, contains_eager

from cse_methods.data.overlap import TrainingData
from cse_methods.evaluation.results import Similarities
from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard.records import CLEAN_METRIC
from cse_platform.leaderboard.tables import (
    ConfigurationRecord,
    EvaluationRecord,
    GroupRecord,
    PairSetRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.leaderboard.test_scores import unpack_similarities
from cse_platform.sweep.training_data import training_data


@dataclass(frozen=True)
class StoredTask:
    """The stored similarities of one trial on one test set, without the cosines."""

    task: str
    identity: str
    settings: dict[str, Any]
    """The settings that the identity is the hash of."""
    data_sha256: str
    source: str | None
    """The source of the data, as in `EvaluationRecord`."""


@dataclass(frozen=True)
class UncleanTrial:
    """A trial without clean scores for some of its stored similarities; `tasks` are all of them."""

    id: int
    key: str
    sweep: str
    """The first sweep that holds it."""
    dev_source: str
    training: TrainingData
    tasks: tuple[StoredTask, ...]


def find_unclean_trials(session: Session) -> list[UncleanTrial]:
    """Find the trials with similarities on STS test sets that lack a clean score, oldest first."""
    settings = {record.identity: record for record in session.scalars(select(EvaluationRecord))}
    clean = select(ScoreRecord.trial_id, ScoreRecord.task, ScoreRecord.identity)
    done = {
        (trial, task, settings[identity].settings["similarities_of"])
        for trial, task, identity in session.execute(
            clean.where(ScoreRecord.metric == CLEAN_METRIC, ScoreRecord.task.in_(STS_TASKS))
        )
    }
    stored = (
        select(
            PairSimilaritiesRecord.trial_id,
            PairSimilaritiesRecord.task,
            PairSimilaritiesRecord.identity,
            PairSimilaritiesRecord.data_sha256,
        )
        .join(PairSimilaritiesRecord.pair_set)
        .where(PairSetRecord.split == "test", PairSimilaritiesRecord.task.in_(STS_TASKS))
    )
    tasks: dict[int, list[StoredTask]] = defaultdict(list)
    waiting = set[int]()
    for trial, task, identity, data in session.execute(stored):
        if evaluation := settings.get(identity):
            found = StoredTask(task, identity, evaluation.settings, data, evaluation.source)
            tasks[trial].append(found)
            waiting |= set() if (trial, task, identity) in done else {trial}
    return [
        UncleanTrial(id, key, sweep, dev, training_data(spec, {}), tuple(tasks[id]))
        for id, key, sweep, dev, spec in session.execute(_select_first_sweeps())
        if id in waiting
    ]


def find_trials_without_similarities(session: Session) -> list[str]:
    """Find the keys of the trials that have scores but no similarities on STS test sets."""
    has_similarities = (
        select(PairSimilaritiesRecord.trial_id)
        .where(
            PairSimilaritiesRecord.trial_id == ScoreRecord.trial_id,
            PairSimilaritiesRecord.task == ScoreRecord.task,
        )
        .correlate(ScoreRecord)
        .exists()
    )
    query = (
        select(TrialRecord.key)
        .join(TrialRecord.scores)
        .where(
            ScoreRecord.split == "test",
            ScoreRecord.metric == "spearman",
            ScoreRecord.task.in_(STS_TASKS),
            ~has_similarities,
        )
        .distinct()
    )
    return sorted(session.scalars(query))


def read_similarities(
    session: Session, trials: Sequence[UncleanTrial]
) -> dict[str, list[Similarities]]:
    """Read the stored similarities of these trials on STS test sets, by key."""
    record = PairSimilaritiesRecord
    keys = {trial.id: trial.key for trial in trials}
    query = (
        select(record)
        .join(record.pair_set)
        .options(contains_eager(record.pair_set))
        .where(record.trial_id.in_(keys), record.task.in_(STS_TASKS), PairSetRecord.split == "test")
    )
    found: dict[str, list[Similarities]] = defaultdict(list)
    for stored in session.scalars(query):
        found[keys[stored.trial_id]].append(unpack_similarities(stored))
    return found


def _select_first_sweeps() -> Any:
    """Select each trial with its dev source, and the name and spec of the first sweep with it."""
    first = (
        select(SweepTrialRecord.trial_id, func.min(SweepTrialRecord.sweep_id).label("sweep_id"))
        .group_by(SweepTrialRecord.trial_id)
        .subquery()
    )
    return (
        select(
            TrialRecord.id,
            TrialRecord.key,
            SweepRecord.name,
            GroupRecord.dev_source,
            SweepRecord.spec,
        )
        .join(TrialRecord.configuration)
        .join(ConfigurationRecord.group)
        .join(first, first.c.trial_id == TrialRecord.id)
        .join(SweepRecord, SweepRecord.id == first.c.sweep_id)
        .order_by(TrialRecord.id)
    )
