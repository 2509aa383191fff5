"""What a search has tried, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, case, func, or_, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.sweeps.stored_file import sampler_of, search_dev, space_of
from cse_platform.leaderboard.query.sweeps.trials_table import passing_trials
from cse_platform.leaderboard.query.sweeps.where import Where
from cse_platform.leaderboard.query.trials.summary import select_trials, summarize
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.sweep.space.space import Space


class TrialOutcome(NamedTuple):
    """What came of a trial, without its hyperparameters; the fields are as of `TrialSummary`."""

    number: int
    role: str
    state: str
    configuration: str
    value: float | None


@dataclass(frozen=True)
class SearchHistory:
    """The trials of one sweep, or a selection of them."""

    sweep: str
    dev: str
    """The dev set that the search climbs, or several, e.g. `stsb+sickr`."""
    space: Space
    """Empty where the sweep's file is not known, as of an imported sweep."""
    trials: tuple[TrialSummary, ...]
    """By number. Where there are more than were asked for, half of these are the best complete
    ones on dev, and the others an even sample of the rest by their numbers."""
    total: int
    """How many trials the sweep holds, or how many of them pass."""
    sampler: str = ""
    """What proposed them; empty where the sweep's file is not known."""
    sampled_from: tuple[TrialOutcome, ...] = ()
    """Where trials were left out: what came of each of all, by number."""

    @property
    def is_sample(self) -> bool:
        """Whether some trials were left out."""
        return len(self.trials) < self.total

    @property
    def outcomes(self) -> Sequence[TrialOutcome | TrialSummary]:
        """What came of each trial, by number, none left out: statistics are taken from these."""
        return self.sampled_from or self.trials


def search_history(
    session: Session, name: str, *, limit: int, where: Where | None = None
) -> SearchHistory:
    """What a sweep has tried, and what came of it; with `where`, of the trials that pass alone.

    The limit is at least 2; `SearchHistory.trials` says which trials are left out.

    Raises:
        NotFoundError: if there is no such sweep, or it has no such hyperparameter.
    """
    sweep = find_sweep(session, name)
    space = space_of(sweep.spec)
    held = select(SweepTrialRecord.trial_id).where(SweepTrialRecord.sweep_id == sweep.id)
    if where:
        held = held.where(SweepTrialRecord.trial_id.in_(passing_trials(session, sweep, where)))
    total = session.scalar(held.with_only_columns(func.count())) or 0
    query = select_trials().where(SweepTrialRecord.sweep_id == sweep.id)
    query = query.order_by(SweepTrialRecord.number)
    outcomes: tuple[TrialOutcome, ...] = ()
    if total > limit:
        outcomes = _outcomes(session, held)
        query = _some(session, query, held, limit=limit, total=total)
    elif where:
        query = query.where(SweepTrialRecord.trial_id.in_(held))
    trials = tuple(summarize(line, space) for line in session.execute(query))
    sampler = sampler_of(sweep.spec)
    return SearchHistory(name, search_dev(sweep.spec), space, trials, total, sampler, outcomes)


def _outcomes(session: Session, held: Select[int]) -> tuple[TrialOutcome, ...]:
    columns = (
        SweepTrialRecord.number,
        SweepTrialRecord.role,
        TrialRecord.state,
        ConfigurationRecord.hash,
        TrialRecord.best_value,
    )
    query = held.join(SweepTrialRecord.trial).join(TrialRecord.configuration)
    lines = session.execute(query.with_only_columns(*columns).order_by(SweepTrialRecord.number))
    return tuple(TrialOutcome(*line) for line in lines)


def _some(
    session: Session, query: Select[*tuple[Any, ...]], held: Select[int], *, limit: int, total: int
) -> Select[*tuple[Any, ...]]:
    """The best half, and of the others every so many-th, which stands for those left out."""
    complete = held.join(SweepTrialRecord.trial).where(TrialRecord.state == "COMPLETE")
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
