"""Past searches: the trials that each tried, and configurations that a new one can start from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, case, exists, func, or_, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.selection import best_first
from cse_platform.leaderboard.trials import (
    MADE_IN_SWEEP,
    read_trials,
    select_trials,
    space_of,
)
from cse_platform.leaderboard.trials_table import TrialChoice, select_chosen
from cse_platform.stores.sql.estimates import CHOSE
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
    find_sweep,
)
from cse_platform.sweep.conditions import Condition
from cse_platform.sweep.space.space import Space


@dataclass(frozen=True)
class SearchHistory:
    """The trials of one sweep, or a selection of them."""

    sweep: str
    dev: str
    """The dev set that the search climbs, or several, e.g. `stsb+sickr`."""
    space: Space
    """Empty if the sweep's file is unknown, as for an imported sweep."""
    trials: tuple[Trial, ...]
    """The trials by number. If the sweep has more than the limit, half of these are the best
    complete ones on dev, and the others are an even sample of the rest by number.
    """
    total: int
    """The number of trials of the sweep that match the conditions."""
    sampler: str = ""
    """The sampler that proposed them; empty if it is unknown."""
    method: str = ""
    sampled_from: Sequence[Any] = ()
    """If `trials` is a sample, a line of each trial by number: `number`, `role`, `state`,
    `configuration` and `best_value`, as in `Trial`.
    """

    @property
    def is_sample(self) -> bool:
        return len(self.trials) < self.total

    @property
    def outcomes(self) -> Sequence[Any]:
        """All trials by number, for statistics; see `sampled_from`."""
        return self.sampled_from or self.trials


def read_search(
    session: Session, sweep: str, *, limit: int = 1000, conditions: Sequence[Condition] = ()
) -> SearchHistory:
    """The history of a sweep: its trials, further seeds included, and their results.

    Args:
        session: of the leaderboard.
        sweep: its name.
        limit: of trials, at least 2; of more, half of the result are the best ones on dev, and
            the rest is an even sample of the others. The result has the total number of trials.
        conditions: only trials that satisfy them, on hyperparameters that there are.
    """
    record = find_sweep(session, sweep)
    space = space_of(record.spec)
    clauses = [SweepTrialRecord.sweep_id == record.id]
    if conditions:
        passing = select_chosen(session, record, TrialChoice(conditions))
        clauses.append(SweepTrialRecord.trial_id.in_(passing))
    matching = select(SweepTrialRecord.trial_id).where(*clauses)
    total = session.scalar(matching.with_only_columns(func.count())) or 0
    outcomes: Sequence[Row[Any]] = ()
    columns_beside: dict[str, Any] = {"chose": CHOSE}
    if total > limit:
        columns = SweepTrialRecord.number, SweepTrialRecord.role, AttemptRecord.state
        hash_, value = ConfigurationRecord.hash, AttemptRecord.best_value
        of_trial = hash_.label("configuration"), value.label("best_value")
        query = select_trials(*columns, *of_trial, attempt=MADE_IN_SWEEP)
        query = query.where(*clauses).order_by(SweepTrialRecord.number)
        outcomes = session.execute(query).all()
        sampled, weight = _select_sample(session, matching, limit=limit, total=total)
        clauses.append(sampled)
        columns_beside["weight"] = weight
    found = read_trials(session, *clauses, space=space, attempt=MADE_IN_SWEEP, **columns_beside)
    return SearchHistory(
        record.name, record.dev, space, tuple(found), total, record.sampler, record.method, outcomes
    )


def _select_sample(
    session: Session, of_sweep: Select[int], *, limit: int, total: int
) -> tuple[ColumnElement[bool], ColumnElement[float]]:
    """Match the best trials, up to half the limit, and an even sample of the others; return the
    condition, and the weights of the trials.
    """
    complete = of_sweep.join(SweepTrialRecord.trial).join(SweepTrialRecord.sweep)
    complete = complete.join(AttemptRecord, MADE_IN_SWEEP)
    complete = complete.where(AttemptRecord.state == "COMPLETE")
    best_first = complete.order_by(AttemptRecord.best_value.desc(), SweepTrialRecord.number)
    best = select(best_first.limit(limit // 2).cte("best").c.trial_id)
    best_count = session.scalar(select(func.count()).select_from(best.subquery())) or 0
    wanted, others = limit - best_count, total - best_count
    position = func.row_number().over(order_by=SweepTrialRecord.number).label("position")
    remaining = of_sweep.where(SweepTrialRecord.trial_id.not_in(best)).add_columns(position)
    columns = remaining.subquery().c
    sampled = select(columns.trial_id).where(columns.position * wanted % others < wanted)
    is_best = SweepTrialRecord.trial_id.in_(best)
    weight = case((is_best, 1.0), else_=others / wanted)
    return or_(is_best, SweepTrialRecord.trial_id.in_(sampled)), weight


def leading_configurations(
    session: Session, *, method: str, backbone: str, dev_identity: str, but: str, limit: int
) -> Sequence[Row[Any]]:
    """Find the best configurations of a method in sweeps other than `but`, best first.

    Returns the first other sweep that tried each, its backbone and values, the mean dev score of
    its seeds that count, and their number. All belong to one group, because means of different
    groups are not comparable: one of the same backbone if there is any, preferably with the same
    dev data; else the one with the most trials.
    """
    configuration = ConfigurationRecord
    others = (
        select(SweepRecord.name)
        .join(SweepRecord.links)
        .join(SweepTrialRecord.trial)
        .where(TrialRecord.configuration_id == configuration.id, SweepRecord.name != but)
    )
    first = others.order_by(SweepRecord.id).limit(1).correlate(configuration).scalar_subquery()
    query = (
        select(
            first.label("sweep"),
            GroupRecord.backbone,
            configuration.values,
            configuration.mean,
            configuration.n.label("seeds"),
        )
        .join(configuration.group)
        .where(configuration.n > 0, exists(others.correlate(configuration)))
        .order_by(*best_first(configuration.standing, configuration.mean, configuration.hash))
        .limit(limit)
    )
    groups = session.scalars(select(GroupRecord).where(GroupRecord.method == method)).all()
    closest_first = sorted(
        groups,
        key=lambda g: (g.backbone != backbone, g.dev_identity != dev_identity, -g.trials, g.id),
    )
    for group in closest_first:
        if lines := session.execute(query.where(configuration.group_id == group.id)).all():
            return lines
    return []
