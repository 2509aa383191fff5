"""The one query behind every list of trials."""

from typing import Any

from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, func, select
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.sweep.space.space import Space

ANY_SPACE = Space({})
"""Of a sweep whose file is not asked or not known: then the values are those that the first sweep
with this configuration searched."""


def select_trials(
    value: Any = TrialRecord.best_value, step: Any = TrialRecord.best_step
) -> Select[*tuple[Any, ...]]:
    """Trials in all their sweeps, to be narrowed down; `summarize` reads its lines.

    `value` and `step` are the columns of the summary's fields of that name.
    """
    return (
        select(
            SweepTrialRecord.number,
            TrialRecord.key,
            TrialRecord.state,
            TrialRecord.seed,
            SweepTrialRecord.role,
            ConfigurationRecord.hash.label("configuration"),
            value.label("value"),
            step.label("step"),
            TrialRecord.started,
            TrialRecord.finished,
            SweepRecord.name.label("sweep"),
            GroupRecord.method,
            GroupRecord.backbone,
            TrialRecord.model,
            TrialRecord.error,
            ConfigurationRecord.values.label("all_values"),
            ConfigurationRecord.searched,
        )
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.sweep)
        .join(SweepTrialRecord.trial)
        .join(TrialRecord.configuration)
        .join(ConfigurationRecord.group)
    )


def summarize(line: Row[Any], space: Space = ANY_SPACE) -> TrialSummary:
    """A line of `select_trials` as a summary.

    It may have further columns of `TrialSummary`, such as `weight`.
    """
    fields = dict(line._mapping)
    values, searched = fields.pop("all_values"), fields.pop("searched")
    known = {name: values[name] for name in searched if name in values}
    return TrialSummary(**fields, values=space.active(values) if len(space) else known)


def find_summaries(session: Session, *conditions: ColumnElement[bool]) -> list[TrialSummary]:
    """The trials that meet these conditions, each in the first sweep that holds it."""
    query = select_trials().where(SweepTrialRecord.sweep_id == _first_sweep(), *conditions)
    return [summarize(line) for line in session.execute(query.order_by(TrialRecord.id))]


def _first_sweep() -> ScalarSelect[int]:
    place = aliased(SweepTrialRecord)
    query = select(func.min(place.sweep_id)).where(place.trial_id == TrialRecord.id)
    return query.correlate(TrialRecord).scalar_subquery()
