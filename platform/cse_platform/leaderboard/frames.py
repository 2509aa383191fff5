"""Frames of pandas for notebooks: rows of the leaderboard, trials, and points of dev curves."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from cse_methods.names import task_name
from cse_methods.tasks import AVG_STS
from cse_platform.leaderboard.families import COLUMN_METRICS, SCORE_COLUMNS, task_of
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.published.matching import source_of
from cse_platform.leaderboard.ranking import ORDERS
from cse_platform.leaderboard.records import BUILTIN, LeaderboardRow, Trial
from cse_platform.leaderboard.selection import group_conditions, require_filters, trial_conditions
from cse_platform.leaderboard.trials import FIRST_LINK, ON_BUILTIN, read_trials, select_trials
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    DevPointRecord,
    GroupRecord,
    ScoreRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.tracking.events import MAIN_METRICS
from cse_platform.tracking.history import COSTS, order_metrics

if TYPE_CHECKING:
    import pandas as pd

_OF_ROW = (
    *("method", "backbone", "corpus", "sweep", "configuration", "dev_set", "seeds", "n", "best_of"),
    *("evaluation", "source", "rank_best", "rank_worst", "rank_among", "test_opened"),
    *("trials", "gpu_hours", "wall_seconds", "finished", "tags", "untrained"),
)
_READERS: dict[str, Callable[[LeaderboardRow], Any]] = {
    **ORDERS,
    "dev_set": attrgetter("dev.search"),
    "seeds": attrgetter("seeds"),
    "best_of": attrgetter("best_of"),
    "evaluation": lambda row: row.headline_score and row.headline_score.identity,
    "source": lambda row: row.headline_score and source_of(row.headline_score, row.dev),
    "rank_best": lambda row: row.rank and row.rank.best,
    "rank_worst": lambda row: row.rank and row.rank.worst,
    "rank_among": lambda row: row.rank and row.rank.among,
    "test_opened": attrgetter("test_opened"),
}
ROW_COLUMNS = {name: _READERS[name] for name in _OF_ROW}
"""What each column of a frame of rows reads."""
TRIAL_COLUMNS: dict[str, Callable[[Trial], Any]] = {
    "trial": attrgetter("key"),
    "dev": attrgetter("best_value"),
    **{
        name: attrgetter(name)
        for name in (
            *("sweep", "number", "role", "state", "method", "backbone", "corpus", "configuration"),
            *("seed", "best_step", "started", "finished", "wall_seconds", "gpu_seconds"),
            *("error", "why", "model"),
        )
    },
}
"""What each column of a frame of trials reads."""


def score_name(column: str) -> str:
    """Name a column of scores as papers do: `STS12`, `Avg.`, `Avg. KCC`, `transfer average`."""
    task = task_of(column)
    name = "Avg." if task == AVG_STS else task_name(task)
    metric = column.removeprefix(f"{task}_") if task != column else ""
    return f"{name} {metric if metric == 'clean' else metric.upper()}".rstrip()


def frame_rows(rows: Sequence[LeaderboardRow], *, averaged: bool = True) -> "pd.DataFrame":
    """Make a frame with a line for each row: its hyperparameters, dev and test scores, and costs.

    `dev`, `STS12`, … are means over seeds; each has its standard deviation, 95 % interval and
    number of seeds in `STS12 std`, `STS12 low`, `STS12 high` and `STS12 n`. `evaluation` is the
    identity of the test score that ranks the row, and `source` that of its data; the ranks are
    among the `rank_among` rows of the same one. With `averaged`, the columns of `Avg.` are there
    even if no row has this average.
    """

    def read_scores(row: LeaderboardRow) -> Iterator[tuple[str, Any]]:
        named = {score_name(column): score for column, score in row.scores.items()}
        for name, score in {"dev": row.dev_score, **named}.items():
            interval = score.interval
            yield name, score.mean
            yield f"{name} std", score.std
            yield f"{name} low", math.nan if interval is None else interval.low
            yield f"{name} high", math.nan if interval is None else interval.high
            yield f"{name} n", score.n
        yield from ((name, row.cost(name)) for name in COSTS if name in row.costs)

    scores = [dict(read_scores(row)) for row in rows]
    values = [row.configuration.values for row in rows]
    average = score_name(AVG_STS)
    parts = (average, *(f"{average} {part}" for part in ("std", "low", "high", "n")))
    return _make_frame(rows, ROW_COLUMNS, values, scores, always=parts if averaged else ())


def frame_trials(session: Session, filters: Filters) -> "pd.DataFrame":
    """Make a frame with a line for each trial: its place, hyperparameters, dev and test scores.

    A trial of several sweeps is in the place that it has in the filter's sweep, else in the first
    one. Scores on built-in data have columns of their own, such as `Avg. (builtin)`. Of several
    test scores in a column, the newest counts.
    """
    conditions = _select_conditions(filters)
    order = SweepRecord.id, SweepTrialRecord.number
    trials = read_trials(session, *conditions, order=order)
    metrics = sorted(MAIN_METRICS | set(COLUMN_METRICS))
    query = _select_joined(
        *(TrialRecord.key, ScoreRecord.task, ScoreRecord.metric, ScoreRecord.value, ON_BUILTIN)
    )
    query = query.join(TrialRecord.scores).where(
        *conditions, ScoreRecord.split == "test", ScoreRecord.metric.in_(metrics)
    )
    by_column: dict[tuple[bool, str], dict[str, float]] = defaultdict(dict)
    for key, task, metric, value, on_builtin in session.execute(
        query.order_by(ScoreRecord.measured, ScoreRecord.place)
    ):
        column = task if metric in MAIN_METRICS else f"{task}_{metric}"
        by_column[bool(on_builtin), column][key] = value
    known = [(data, column) for data in (False, True) for column in SCORE_COLUMNS]
    columns = dict.fromkeys([*(each for each in known if each in by_column), *by_column])
    names = {(data, c): score_name(c) + f" ({BUILTIN})" * data for data, c in columns}
    scores = [{names[c]: by_column[c].get(trial.key) for c in columns} for trial in trials]
    values = [trial.hyperparameters for trial in trials]
    return _make_frame(trials, TRIAL_COLUMNS, values, scores)


def frame_curves(session: Session, filters: Filters) -> "pd.DataFrame":
    """Make a frame with a line for each point of the dev curves of the trials.

    `trial` is the key, `dev` the score that the search climbs, and `kept` says whether the best
    checkpoint is of this step. The metrics have columns of their own names.
    """
    import pandas as pd

    names = ("trial", "sweep", "number", "method", "seed", "step", "dev", "kept")
    query = (
        _select_joined(
            *(TrialRecord.key, SweepRecord.name, SweepTrialRecord.number, GroupRecord.method),
            *(TrialRecord.seed, DevPointRecord.step, DevPointRecord.value),
            DevPointRecord.step == AttemptRecord.best_step,
            DevPointRecord.metrics,
        )
        .join(AttemptRecord.points)
        .where(*_select_conditions(filters))
        .order_by(SweepRecord.id, SweepTrialRecord.number, DevPointRecord.step)
    )
    lines = session.execute(query).all()
    metrics = order_metrics(name for *_, measured in lines for name in measured)
    records = [dict(zip(names, line, strict=False)) | line[-1] for line in lines]
    return pd.DataFrame(records, columns=[*names, *metrics]).astype({"kept": "boolean"})


def _select_joined(*columns: Any) -> Any:
    """Select columns of trials, their sweeps and their groups."""
    return select_trials(*columns).join(ConfigurationRecord.group)


def _select_conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """Build the SQL conditions on trials, each in one sweep."""
    require_filters(filters)
    conditions = [*group_conditions(filters), *trial_conditions(filters)]
    conditions.append(FIRST_LINK if filters.sweep is None else SweepRecord.name == filters.sweep)
    if (identity := filters.identity) is not None:
        scored = select(TrialRecord.id).join(TrialRecord.scores)
        scored = scored.where(ScoreRecord.identity.startswith(identity, autoescape=True))
        of_dev = GroupRecord.dev_identity.startswith(identity, autoescape=True)
        conditions.append(or_(of_dev, TrialRecord.id.in_(scored)))
    return conditions


def _make_frame(
    records: Sequence[Any],
    columns: Mapping[str, Callable[[Any], Any]],
    values: Sequence[Mapping[str, Any]],
    scores: Sequence[Mapping[str, Any]],
    *,
    always: Sequence[str] = (),
) -> "pd.DataFrame":
    """Make a frame of the columns of records, their hyperparameters, and their scores.

    A hyperparameter with the name of another column is in `values.NAME`. The scores in `always`
    have a column even if no record has one.
    """
    import pandas as pd

    base = pd.DataFrame({name: list(map(read, records)) for name, read in columns.items()})
    names = dict.fromkeys([*(name for each in scores for name in each), *always])
    tested, own = pd.DataFrame(list(scores), columns=[*names]), pd.DataFrame(list(values))
    taken = {*base, *tested}
    own = own.rename(columns=lambda name: f"values.{name}" if name in taken else name)
    return pd.concat([base, own, tested], axis=1)
