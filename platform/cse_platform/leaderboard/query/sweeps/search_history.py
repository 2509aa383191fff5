"""What a search has tried, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Row, Select, case, func, or_, select
from sqlalchemy.orm import Session

from cse_methods.data.dev_selection import DevSelection
from cse_platform.leaderboard.query.trials.curves import sweep_named
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.space.space import Space


@dataclass(frozen=True)
class SearchedTrial:
    """One trial of a sweep: what was tried, and how good it was."""

    number: int
    """In the sweep."""
    key: str
    state: str
    """RUNNING, COMPLETE, PRUNED or FAIL."""
    seed: int
    role: str
    """`search`; `confirm` and `repeat` are further seeds of what the search has tried."""
    configuration: str
    """Its hash: equal for all seeds."""
    values: dict[str, Any]
    """Of the searched settings that took part."""
    value: float | None
    """The dev score of the best checkpoint, a fraction; of a pruned trial, until it was stopped."""
    step: int | None
    """Of the best checkpoint."""
    started: datetime
    finished: datetime | None
    weight: float = 1.0
    """How many trials of the sweep it stands for: more than 1 where it is one of a sample."""


@dataclass(frozen=True)
class SearchHistory:
    """The trials of one sweep, or a selection of them."""

    sweep: str
    dev: str
    """The dev set that the search climbs."""
    space: Space
    """Empty where the sweep's file is not known, as of an imported sweep."""
    trials: tuple[SearchedTrial, ...]
    """By number. Where there are more than were asked for, half of these are the best complete
    ones on dev, and the others an even sample of the rest by their numbers."""
    total: int
    """How many trials the sweep holds."""

    @property
    def is_sample(self) -> bool:
        """Whether some trials were left out."""
        return len(self.trials) < self.total


def search_history(session: Session, name: str, *, limit: int) -> SearchHistory:
    """What a sweep has tried, and what came of it.

    Args:
        session: of an open leaderboard.
        name: of the sweep.
        limit: of trials, at least 2; which ones are left out says `SearchHistory.trials`.

    Raises:
        StoreError: if there is no such sweep.
    """
    sweep = sweep_named(session, name)
    space = space_of(sweep.spec)
    held = select(func.count()).where(SweepTrialRecord.sweep_id == sweep.id)
    total = session.scalar(held) or 0
    query = _trials(sweep.id)
    if total > limit:
        query = _some(session, query, sweep.id, limit=limit, total=total)
    trials = tuple(_trial(line, space) for line in session.execute(query))
    return SearchHistory(name, search_dev(sweep.spec), space, trials, total)


def search_dev(spec: Mapping[str, Any]) -> str:
    """The dev set that a sweep climbs, by its stored file."""
    dev = spec.get("dev")
    found = dev.get("search") if isinstance(dev, Mapping) else None
    return found if isinstance(found, str) else DevSelection().search


def space_of(spec: Mapping[str, Any]) -> Space:
    """What a sweep searches, by its stored file; empty where that says nothing we can read."""
    try:
        return Space.model_validate(spec.get("space") or {})
    except ValidationError:  # of another version
        return Space({})


def searched_values(
    space: Space, values: Mapping[str, Any], searched: Sequence[str]
) -> dict[str, Any]:
    """The searched settings of a trial that took part.

    Args:
        space: of the sweep; where it is empty, `searched` says what was searched.
        values: all settings of the trial.
        searched: names of those that the first sweep with this configuration searched.
    """
    if len(space):
        return space.active(values)
    return {name: values[name] for name in searched if name in values}


def _trials(sweep: int) -> Select[*tuple[Any, ...]]:
    return (
        select(
            SweepTrialRecord.number,
            TrialRecord.key,
            TrialRecord.state,
            TrialRecord.seed,
            SweepTrialRecord.role,
            ConfigurationRecord.hash.label("configuration"),
            TrialRecord.best_value.label("value"),
            TrialRecord.best_step.label("step"),
            TrialRecord.started,
            TrialRecord.finished,
            ConfigurationRecord.values.label("settings"),
            ConfigurationRecord.searched,
        )
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == TrialRecord.id)
        .join(ConfigurationRecord, ConfigurationRecord.id == TrialRecord.configuration_id)
        .where(SweepTrialRecord.sweep_id == sweep)
        .order_by(SweepTrialRecord.number)
    )


def _trial(line: Row[Any], space: Space) -> SearchedTrial:
    fields = dict(line._mapping)
    settings, searched = fields.pop("settings"), fields.pop("searched")
    return SearchedTrial(**fields, values=searched_values(space, settings, searched))


def _some(
    session: Session, query: Select[*tuple[Any, ...]], sweep: int, *, limit: int, total: int
) -> Select[*tuple[Any, ...]]:
    """The best half, and of the others every so many-th, which stands for those left out."""
    held = select(SweepTrialRecord.trial_id).where(SweepTrialRecord.sweep_id == sweep)
    complete = held.join(TrialRecord, TrialRecord.id == SweepTrialRecord.trial_id).where(
        TrialRecord.state == "COMPLETE"
    )
    best_first = complete.order_by(TrialRecord.best_value.desc(), SweepTrialRecord.number)
    best = select(best_first.limit(limit // 2).cte("best").c.trial_id)
    found = session.scalar(select(func.count()).select_from(best.subquery())) or 0
    wanted, others = limit - found, total - found
    place = func.row_number().over(order_by=SweepTrialRecord.number).label("place")
    rest = held.where(SweepTrialRecord.trial_id.not_in(best)).add_columns(place).subquery()
    sampled = select(rest.c.trial_id).where(rest.c.place * wanted % others < wanted)
    is_best = SweepTrialRecord.trial_id.in_(best)
    weight = case((is_best, 1.0), else_=others / wanted).label("weight")
    return query.where(or_(is_best, SweepTrialRecord.trial_id.in_(sampled))).add_columns(weight)
