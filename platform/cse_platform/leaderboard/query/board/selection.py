"""Which configurations a leaderboard shows: of each group the best on dev, or all."""

from typing import Any

from sqlalchemy import Select, Subquery, case, func, select

from cse_platform.leaderboard.query.board.best import best_first, best_of_group
from cse_platform.leaderboard.query.board.filters import Filters, group_conditions, trial_conditions
from cse_platform.leaderboard.query.trials.find import begins_with
from cse_platform.leaderboard.store.tables import ConfigurationRecord, GroupRecord, TrialRecord


def selected_configurations(
    filters: Filters, *, per_configuration: bool, limit: int | None = None
) -> Subquery:
    """The configurations to show, with the number and GPU seconds of what each was selected from.

    They are the best of each group by the rule of `best`. With `per_configuration`, they are all
    that have a complete trial; a limit keeps those with the highest means.

    Returns:
        Columns `id`, `trials` (of any state) and `gpu_seconds`.
    """
    if not filters.keeps_groups_whole:
        some = _among_some_trials(filters, per_configuration=per_configuration, limit=limit)
        return some.subquery("selected")
    if per_configuration:
        one = ConfigurationRecord
        query = _with_effort(one.id).join(GroupRecord.configurations).where(one.n > 0)
        query = _cut(query, limit, one.mean.desc(), GroupRecord.method, one.hash)
    else:
        query = _with_effort(best_of_group())
    return query.where(*group_conditions(filters)).subquery("selected")


def _with_effort(configuration: Any) -> Select[Any]:
    return select(configuration.label("id"), GroupRecord.trials, GroupRecord.gpu_seconds)


def _cut(query: Select[Any], limit: int | None, *order: Any) -> Select[Any]:
    """Only the first so many."""
    return query if limit is None else query.order_by(*order).limit(limit)


def _among_some_trials(
    filters: Filters, *, per_configuration: bool, limit: int | None
) -> Select[Any]:
    tried = _tried(filters).subquery("tried")
    group = ConfigurationRecord.group_id
    best = best_first(tried.c.n, tried.c.mean, ConfigurationRecord.hash)
    ranked = (
        select(
            tried.c.id,
            tried.c.n,
            tried.c.mean,
            GroupRecord.method,
            ConfigurationRecord.hash,
            func.row_number().over(partition_by=group, order_by=best).label("place"),
            func.sum(tried.c.trials).over(partition_by=group).label("trials"),
            func.sum(tried.c.gpu_seconds).over(partition_by=group).label("gpu_seconds"),
        )
        .join(ConfigurationRecord, ConfigurationRecord.id == tried.c.id)
        .join(ConfigurationRecord.group)
        .where(*group_conditions(filters))
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
        named = begins_with(ConfigurationRecord.hash, filters.configuration)
        query = query.where(
            TrialRecord.configuration_id.in_(select(ConfigurationRecord.id).where(named))
        )
    return query
