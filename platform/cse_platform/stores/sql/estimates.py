"""Keeps the estimates of configurations over their seeds, without the values that chose them."""

from collections import Counter, defaultdict
from collections.abc import Collection
from math import fsum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Subquery, and_, case, exists, func, select
from sqlalchemy.orm import Session, aliased

from cse_platform.counting_seeds import (
    ESTIMATED,
    LEAST_FURTHER,
    RIVALS,
    rate_seeds,
    select_counting_seeds,
)
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
    in_batches,
)

_LINK, _RIVAL = aliased(SweepTrialRecord), aliased(SweepTrialRecord)
_OF_ONE_SEARCH = _RIVAL.sweep_id == _LINK.sweep_id, _RIVAL.role != "confirm"


def _match_choosing_trials(*further: ColumnElement[bool]) -> ColumnElement[bool]:
    """Match the trials of searches in which another configuration has a value, too, unless every
    one of them gets the further seeds; `further` are conditions on a trial in such a search.

    A scalar subquery finds the configuration of another trial: in a join, SQLite could begin with
    the trials, which can be very many.
    """
    trial, shown = aliased(TrialRecord), aliased(AttemptRecord)
    configuration = select(trial.configuration_id).join(shown, trial.shown_attempt == shown.id)
    configuration = configuration.where(trial.id == _RIVAL.trial_id, shown.state.in_(RIVALS))
    other = configuration.correlate(_RIVAL).scalar_subquery() != TrialRecord.configuration_id
    tried_another = exists().where(*_OF_ONE_SEARCH, other)
    chooses = exists().where(SweepRecord.id == _LINK.sweep_id, ~SweepRecord.confirms_all)
    return (
        exists()
        .where(
            _LINK.trial_id == TrialRecord.id,
            _LINK.role != "confirm",
            chooses.correlate(_LINK),
            tried_another.correlate(_LINK, TrialRecord),
            *further,
        )
        .correlate(TrialRecord, AttemptRecord)
    )


def _match_best_trials() -> ColumnElement[bool]:
    """Match the trials that no complete one of their search has a higher value than."""
    trial, shown = aliased(TrialRecord), aliased(AttemptRecord)
    value = select(shown.best_value).join(trial, trial.shown_attempt == shown.id)
    value = value.where(trial.id == _RIVAL.trial_id, shown.state == "COMPLETE")
    higher = value.correlate(_RIVAL).scalar_subquery() > AttemptRecord.best_value
    return ~exists().where(*_OF_ONE_SEARCH, higher).correlate(_LINK, AttemptRecord)


CHOSE = _match_choosing_trials()
"""Whether the value of a trial took part in the choice of a configuration, in any sweep that holds
it.
"""
CHOSEN = _match_choosing_trials(_match_best_trials())
"""Whether it was also the highest, so that the search chose its own configuration."""
REPEATS = (
    exists()
    .where(SweepTrialRecord.trial_id == TrialRecord.id, SweepTrialRecord.role == "repeat")
    .correlate(TrialRecord)
)
"""Whether a trial repeats a configuration in the search of any sweep that holds it."""


def aggregate_seeds() -> list[ColumnElement[Any]]:
    """Build the columns that `estimate_from` takes, for a query that groups trials, with the
    attempts that they show, by their configurations.
    """
    complete = AttemptRecord.state == "COMPLETE"
    repeats = func.sum(case((and_(complete, REPEATS), 1), else_=0)).label("repeats")
    columns: list[ColumnElement[Any]] = [repeats]
    for name, which in {"complete": complete, "further": and_(complete, ~CHOSE)}.items():
        columns.append(func.sum(case((which, 1), else_=0)).label(name))
        columns.append(func.avg(case((which, AttemptRecord.best_value))).label(f"mean_of_{name}"))
    return columns


class EstimateColumns(NamedTuple):
    """The same three columns as `estimate_configurations` stores."""

    n: ColumnElement[int]
    mean: ColumnElement[float]
    standing: ColumnElement[int]


def estimate_from(aggregated: Subquery) -> EstimateColumns:
    """Build the estimate of each configuration from the columns of `aggregate_seeds`."""
    seeds = aggregated.c
    estimated = seeds.further >= LEAST_FURTHER
    return EstimateColumns(
        case((estimated, seeds.further), else_=seeds.complete),
        case((estimated, seeds.mean_of_further), else_=seeds.mean_of_complete),
        case(
            (estimated, ESTIMATED),
            (seeds.complete - seeds.repeats > 1, 2),
            (seeds.complete > 0, 1),
            else_=0,
        ),
    )


def estimate_configurations(session: Session, configurations: Collection[int]) -> None:
    """Compute the estimates of configurations over their complete seeds, and store them.

    All values are read again, because they are few and the last digit of a running mean would
    depend on the order in which trials arrive.
    """
    query = (
        select(
            TrialRecord.configuration_id, TrialRecord.seed, AttemptRecord.best_value, CHOSE, REPEATS
        )
        .join(TrialRecord.shown)
        .where(AttemptRecord.state == "COMPLETE")
    )
    for ids in in_batches(sorted(configurations)):
        values, chose = defaultdict[int, dict[int, float]](dict), defaultdict[int, set[int]](set)
        repeats = Counter[int]()
        of_these = query.where(TrialRecord.configuration_id.in_(ids))
        for configuration, seed, value, is_choice, is_repeat in session.execute(of_these):
            values[configuration][seed] = value or 0.0  # a complete trial has one
            if is_choice:
                chose[configuration].add(seed)
            repeats[configuration] += bool(is_repeat)
        records = select(ConfigurationRecord).where(ConfigurationRecord.id.in_(ids))
        for record in session.scalars(records):
            seeds, choosing = values[record.id], chose[record.id]
            counted = select_counting_seeds(seeds, choosing)
            record.n = len(counted)
            record.mean = fsum(seeds[seed] for seed in counted) / len(counted) if counted else None
            record.standing = rate_seeds(len(seeds), len(seeds) - len(choosing), repeats[record.id])
