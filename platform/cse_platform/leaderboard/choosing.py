"""What choosing a configuration on dev was worth, from the stored evaluations of a sweep."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_methods.data.shared_sentences import known_repeats
from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard.ranking import read_pair_sets
from cse_platform.leaderboard.records import CLEAN_METRIC
from cse_platform.leaderboard.searches import (
    by_configuration,
    measured_trials,
)
from cse_platform.leaderboard.statistics.choosing import (
    ChoiceWorth,
    EvaluatedConfiguration,
    TaskRows,
    choice_worth,
)
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    EvaluationRecord,
    PairSimilaritiesRecord,
    ScoreRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.objectives import is_feasible
from cse_platform.tracking.packing import unpack_cosines


class _CleanTask(NamedTuple):
    """A test set, with the rows on which a trial's clean score is computed."""

    data_sha256: str
    kept: bytes
    """The indices of these rows, as bytes of `intp`."""


class _Trial(NamedTuple):
    configuration: str
    dev: float
    tasks: dict[str, tuple[_CleanTask, NDArray[np.float32]]]
    """The clean rows and the cosines of all rows, by task."""


def sweep_choice(session: Session, sweep: SweepRecord) -> ChoiceWorth | None:
    """Estimate what choosing on dev was worth among the evaluated trials of a sweep.

    A trial counts if it is complete and has clean scores and stored similarities. Of these, only
    the trials that were scored on the same rows of the most tasks count. Configurations that
    violate a constraint of the search, which never chooses them, and averages of seeds are left
    out.

    Returns:
        None if fewer than two configurations have such trials.
    """
    # Constraints are checked on the means over a configuration's complete trials.
    seeds_of = by_configuration(measured_trials(session, sweep))
    feasible = {name for name, of in seeds_of.items() if is_feasible(sweep.constraints, of)}
    trials = [trial for trial in _read_trials(session, sweep.id) if trial.configuration in feasible]
    kinds = Counter(
        frozenset((task, clean) for task, (clean, _) in trial.tasks.items()) for trial in trials
    )
    if not kinds:
        return None
    kind = max(kinds, key=lambda kind: (len(kind), kinds[kind]))
    evaluated: dict[str, list[_Trial]] = defaultdict(list)
    for trial in trials:
        if kind == {(task, clean) for task, (clean, _) in trial.tasks.items()}:
            evaluated[trial.configuration].append(trial)
    if len(evaluated) < 2:
        return None
    tasks = sorted(dict(kind), key=STS_TASKS.index)
    configurations = [
        EvaluatedConfiguration(
            dev=[trial.dev for trial in seeds],
            cosines={task: np.stack([trial.tasks[task][1] for trial in seeds]) for task in tasks},
        )
        for seeds in evaluated.values()
    ]
    rows = _build_tasks(session, tasks, dict(kind), list(evaluated))
    return choice_worth(configurations, rows)


def _read_trials(session: Session, sweep: int) -> list[_Trial]:
    """Read the evaluated trials of a sweep, by number; for each task the last evaluation."""
    from cse_methods.evaluation.identity import rows_of_clean

    clean = (
        select(ScoreRecord.trial_id, ScoreRecord.task, EvaluationRecord.settings)
        .join(EvaluationRecord, EvaluationRecord.identity == ScoreRecord.identity)
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == ScoreRecord.trial_id)
        .where(
            SweepTrialRecord.sweep_id == sweep,
            ScoreRecord.metric == CLEAN_METRIC,
            ScoreRecord.task.in_(STS_TASKS),
        )
        .order_by(ScoreRecord.measured, ScoreRecord.identity)
    )
    kept: dict[tuple[int, str], tuple[str, NDArray[np.intp]]] = {}
    for trial, task, settings in session.execute(clean):
        if (rows := rows_of_clean(settings)) is not None:
            kept[trial, task] = rows
    similarities = (
        select(
            TrialRecord.id,
            ConfigurationRecord.hash,
            TrialRecord.best_value,
            PairSimilaritiesRecord.task,
            PairSimilaritiesRecord.identity,
            PairSimilaritiesRecord.data_sha256,
            PairSimilaritiesRecord.cosines,
        )
        .select_from(PairSimilaritiesRecord)
        .join(PairSimilaritiesRecord.trial)
        .join(TrialRecord.configuration)
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == TrialRecord.id)
        .where(
            SweepTrialRecord.sweep_id == sweep,
            TrialRecord.state == "COMPLETE",
            TrialRecord.best_value.is_not(None),
            PairSimilaritiesRecord.task.in_(STS_TASKS),
        )
        .order_by(SweepTrialRecord.number)
    )
    trials: dict[int, _Trial] = {}
    for id, configuration, dev, task, identity, data, packed in session.execute(similarities):
        clean_rows = kept.get((id, task))
        if clean_rows is not None and clean_rows[0] == identity and dev is not None:
            trial = trials.setdefault(id, _Trial(configuration, dev, {}))
            trial.tasks[task] = _CleanTask(data, clean_rows[1].tobytes()), unpack_cosines(packed)
    return list(trials.values())


def _build_tasks(
    session: Session,
    tasks: Sequence[str],
    clean: Mapping[str, _CleanTask],
    configurations: Sequence[str],
) -> list[TaskRows]:
    """Build the rows of each task. A row is `shared` if it is neither kept nor repeats another."""
    golds, groups = read_pair_sets(
        session, {clean[task].data_sha256 for task in tasks}, configurations
    )
    built = []
    for task in tasks:
        data_sha256, places = clean[task]
        gold = golds[data_sha256]
        kept = np.zeros(len(gold), np.bool_)
        kept[np.frombuffer(places, np.intp)] = True
        repeats = known_repeats(gold)
        shared = None if repeats is None else ~kept & ~repeats
        built.append(TaskRows(task, gold, groups.get(data_sha256), shared, kept))
    return built
