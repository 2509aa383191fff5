"""Which configurations a leaderboard shows: the one chosen on dev of each contest, or all."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Select, Subquery, case, func, or_, select
from sqlalchemy.orm import aliased

from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    MachineRecord,
    SweepRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
)


@dataclass(frozen=True)
class Filters:
    """What a leaderboard is made from; None lets all through."""

    backbone: str | None = None
    method: str | None = None
    sweep: str | None = None
    """Only trials that it holds."""
    tag: str | None = None
    """Only trials that a sweep with this tag holds."""
    configuration: str | None = None
    """Only configurations whose hash begins so."""
    identity: str | None = None
    """Only rows of dev sets or evaluations whose identity begins so. What is chosen on dev does not
    depend on it."""
    hardware: str | None = None
    """Only trials on a machine whose GPU, CPU or host has this in its name."""
    since: datetime | None = None
    """Only trials that finished then or later."""

    @property
    def picks_contests_only(self) -> bool:
        """Whether every configuration of a contest that is let through is let through."""
        narrower = (self.sweep, self.tag, self.configuration, self.hardware, self.since)
        return all(one is None for one in narrower)


def selected_configurations(
    filters: Filters, *, per_configuration: bool, limit: int | None = None
) -> Subquery:
    """The configurations to show, with the number and GPU seconds of what each was chosen from.

    A configuration with more than one seed is chosen before any with a single, maybe lucky, one;
    among equals the higher mean wins.

    Args:
        filters: what the choice is made from.
        per_configuration: no choice: every configuration with a complete trial.
        limit: of these only so many, those with the highest means.

    Returns:
        Columns `id`, `trials` (of any state) and `gpu_seconds`.
    """
    if not filters.picks_contests_only:
        some = _among_some(filters, per_configuration=per_configuration, limit=limit)
        return some.subquery("shown")
    if per_configuration:
        query = _with_effort(ConfigurationRecord.id).join(
            ConfigurationRecord, ConfigurationRecord.contest_id == GroupRecord.id
        )
        query = query.where(ConfigurationRecord.n > 0)
        one = ConfigurationRecord
        query = _cut(query, limit, one.mean.desc(), GroupRecord.method, one.hash)
    else:  # two look-ups in an index for each contest, however many configurations it has
        query = _with_effort(func.coalesce(_best("n > 1"), _best("n > 0")))
    return query.where(*_of_contests(filters)).subquery("shown")


def trial_conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """The conditions on single trials."""
    conditions: list[ColumnElement[bool]] = []
    if filters.hardware is not None:
        named = or_(
            MachineRecord.hardware.icontains(filters.hardware, autoescape=True),
            MachineRecord.host.icontains(filters.hardware, autoescape=True),
        )
        conditions.append(TrialRecord.machine_id.in_(select(MachineRecord.id).where(named)))
    if filters.since is not None:
        conditions.append(TrialRecord.finished >= filters.since)
    if filters.sweep is not None or filters.tag is not None:
        conditions.append(TrialRecord.id.in_(_held_by_sweeps(filters)))
    return conditions


def _with_effort(configuration: Any) -> Select[Any]:
    return select(configuration.label("id"), GroupRecord.trials, GroupRecord.gpu_seconds)


def _best(which: str) -> ScalarSelect[int]:
    """By the index of that condition."""
    one = aliased(ConfigurationRecord)
    seeds = {"n > 1": one.n > 1, "n > 0": one.n > 0}[which]
    return (
        select(one.id)
        .where(one.contest_id == GroupRecord.id, seeds)
        .order_by(one.mean.desc(), one.hash.desc())
        .limit(1)
        .correlate(GroupRecord)
        .scalar_subquery()
    )


def _of_contests(filters: Filters) -> list[ColumnElement[bool]]:
    asked = {GroupRecord.backbone: filters.backbone, GroupRecord.method: filters.method}
    return [column == value for column, value in asked.items() if value is not None]


def _cut(query: Select[Any], limit: int | None, *order: Any) -> Select[Any]:
    """Only the first so many."""
    return query if limit is None else query.order_by(*order).limit(limit)


def _among_some(filters: Filters, *, per_configuration: bool, limit: int | None) -> Select[Any]:
    tried = _tried(filters).subquery("tried")
    contest = ConfigurationRecord.contest_id
    best_first = (
        (tried.c.n > 1).desc(),
        (tried.c.n > 0).desc(),
        tried.c.mean.desc(),
        ConfigurationRecord.hash.desc(),
    )
    ranked = (
        select(
            tried.c.id,
            tried.c.n,
            tried.c.mean,
            GroupRecord.method,
            ConfigurationRecord.hash,
            func.row_number().over(partition_by=contest, order_by=best_first).label("place"),
            func.sum(tried.c.trials).over(partition_by=contest).label("trials"),
            func.sum(tried.c.gpu_seconds).over(partition_by=contest).label("gpu_seconds"),
        )
        .join(ConfigurationRecord, ConfigurationRecord.id == tried.c.id)
        .join(GroupRecord, GroupRecord.id == contest)
        .where(*_of_contests(filters))
        .subquery("ranked")
    )
    query = select(ranked.c.id, ranked.c.trials, ranked.c.gpu_seconds).where(ranked.c.n > 0)
    if not per_configuration:
        return query.where(ranked.c.place == 1)
    return _cut(query, limit, ranked.c.mean.desc(), ranked.c.method, ranked.c.hash)


def _tried(filters: Filters) -> Select[Any]:
    """Configurations by what the trials that are let through say."""
    complete = TrialRecord.state == "COMPLETE"
    query = (
        select(
            TrialRecord.configuration_id.label("id"),
            func.sum(case((complete, 1), else_=0)).label("n"),
            func.avg(case((complete, TrialRecord.best_value))).label("mean"),
            func.count().label("trials"),
            func.sum(TrialRecord.gpu_seconds).label("gpu_seconds"),
        )
        .where(*trial_conditions(filters))
        .group_by(TrialRecord.configuration_id)
    )
    if filters.configuration is not None:
        named = ConfigurationRecord.hash.startswith(filters.configuration, autoescape=True)
        query = query.where(
            TrialRecord.configuration_id.in_(select(ConfigurationRecord.id).where(named))
        )
    return query


def _held_by_sweeps(filters: Filters) -> Select[int]:
    query = select(SweepTrialRecord.trial_id)
    query = query.join(SweepRecord, SweepRecord.id == SweepTrialRecord.sweep_id)
    if filters.sweep is not None:
        query = query.where(SweepRecord.name == filters.sweep)
    if filters.tag is not None:
        query = query.join(SweepTagRecord, SweepTagRecord.sweep_id == SweepRecord.id)
        query = query.where(SweepTagRecord.tag == filters.tag)
    return query
