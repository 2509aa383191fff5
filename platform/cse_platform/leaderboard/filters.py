"""Filters of a leaderboard, and the rule by which a group's best configuration is chosen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Select, and_, false, func, or_, select, union
from sqlalchemy.orm import aliased

from cse_methods.published.released import SCORED_BY, names_of_released
from cse_platform.leaderboard.annotations import select_tagged
from cse_platform.stores.sql.tables import (
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
    """The filters of a leaderboard; a filter that is None passes everything."""

    backbone: str | None = None
    """One backbone, or several separated by commas. Released encoders that were trained from one of
    them pass too.
    """
    method: str | None = None
    sweep: str | None = None
    """Only trials that this sweep holds."""
    tag: str | None = None
    """Only trials that have this tag, or whose configuration or sweep has it."""
    configuration: str | None = None
    """Only configurations whose hash starts with this."""
    identity: str | None = None
    """Only rows whose dev sets or evaluations have an identity that starts with this. It does not
    change which configuration is selected on dev.
    """
    hardware: str | None = None
    """Only trials on a machine whose GPU, CPU or host name contains this."""
    since: datetime | None = None
    """Only trials that finished at this time or later."""

    @property
    def keeps_groups_whole(self) -> bool:
        """Whether each group passes with all its trials or not at all."""
        narrower = (self.sweep, self.tag, self.configuration, self.hardware, self.since)
        return all(value is None for value in narrower)


EVERY_ROW = Filters()


def group_conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """Build the SQL conditions on groups."""
    conditions: list[ColumnElement[bool]] = []
    if filters.backbone is not None:
        conditions.append(_match_backbones(backbones_in(filters.backbone)))
    if filters.method is not None:
        conditions.append(GroupRecord.method == filters.method)
    return conditions


def _match_backbones(backbones: Sequence[str]) -> ColumnElement[bool]:
    """Match groups of these backbones, or of released encoders trained from one of them."""
    released = [
        part
        for name in names_of_released(backbones)
        for part in (GroupRecord.backbone == name, GroupRecord.backbone.startswith(f"{name}@"))
    ]
    scored = and_(GroupRecord.method == SCORED_BY, or_(false(), *released))
    return or_(GroupRecord.backbone.in_(backbones), scored)


def backbones_in(text: str) -> list[str]:
    """Split the comma-separated backbones of a filter."""
    return [name for part in text.split(",") if (name := part.strip())]


def trial_conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """Build the SQL conditions on single trials."""
    conditions: list[ColumnElement[bool]] = []
    if filters.hardware is not None:
        named = or_(
            MachineRecord.hardware.icontains(filters.hardware, autoescape=True),
            MachineRecord.host.icontains(filters.hardware, autoescape=True),
        )
        conditions.append(TrialRecord.machine_id.in_(select(MachineRecord.id).where(named)))
    if filters.since is not None:
        conditions.append(TrialRecord.finished >= filters.since)
    if filters.sweep is not None:
        conditions.append(
            TrialRecord.id.in_(_select_held_trials(SweepRecord.name == filters.sweep))
        )
    if filters.tag is not None:
        conditions.append(TrialRecord.id.in_(_select_tagged_trials(filters.tag)))
    return conditions


def _select_held_trials(sweeps: ColumnElement[bool]) -> Select[int]:
    """Select the ids of the trials that these sweeps hold."""
    return select(SweepTrialRecord.trial_id).join(SweepTrialRecord.sweep).where(sweeps)


def _select_tagged_trials(tag: str) -> CompoundSelect[int]:
    """Select the trials that have a tag, or whose configuration or sweep has it."""
    in_file = select(SweepTagRecord.sweep_id).where(SweepTagRecord.tag == tag)
    sweeps = or_(SweepRecord.id.in_(in_file), SweepRecord.name.in_(select_tagged("sweep", tag)))
    configurations = ConfigurationRecord.hash.in_(select_tagged("configuration", tag))
    return union(
        _select_held_trials(sweeps),
        select(TrialRecord.id).where(TrialRecord.key.in_(select_tagged("trial", tag))),
        select(TrialRecord.id).join(TrialRecord.configuration).where(configurations),
    )


@dataclass(frozen=True)
class Catalogue:
    """The values that filters take, each list in alphabetical order."""

    backbones: list[str]
    methods: list[str]
    sweeps: list[str]
    tags: list[str]
    machines: list[str]


_UNIT = 1e12
"""Mean dev scores are compared after rounding to 1e-12. The store updates a mean when a seed
completes, a filtered board takes SQL's `avg` and a sweep `fmean`; these add in different orders, so
means of equal seeds can differ in the last bit. No dev score is meaningful to twelve digits, and a
multiple of 1e-12 in [-1, 1] is a whole number that a float represents exactly.
"""

BestKey = tuple[bool, int, str]


def best_key(*, seeds: int, mean: float, configuration: str) -> BestKey:
    """Return the sort key of a configuration; the best configuration has the highest key.

    `mean` is the mean dev score of its complete seeds.
    """
    return seeds > 1, round(mean * _UNIT), configuration


def best_first(seeds: Any, mean: Any, configuration: Any) -> tuple[ColumnElement[Any], ...]:
    """Build the `ORDER BY` equivalent to `best_key`; configurations without a complete seed come
    last.
    """
    return (seeds > 1).desc(), (seeds > 0).desc(), _round_mean(mean).desc(), configuration.desc()


def _round_mean(mean: Any) -> ColumnElement[float]:
    """Express a mean dev score in units of 1e-12, rounded."""
    return func.round(mean * _UNIT)


def best_of_group() -> ColumnElement[Any]:
    """Select the id of each group's best configuration by the rule of `best_key`, with an index.

    Averages of seeds are excluded.
    """
    return func.coalesce(
        _select_highest_of_group(lambda each: (each.n > 1) & each.averages.is_(None)),
        _select_highest_of_group(lambda each: (each.n > 0) & each.averages.is_(None)),
    )


def best_average_of_group() -> ColumnElement[Any]:
    """Select the id of each group's average of seeds with the highest dev score, with an index."""
    return _select_highest_of_group(lambda each: (each.n > 0) & each.averages.is_not(None))


def _select_highest_of_group(among: Callable[[Any], Any]) -> ColumnElement[Any]:
    """Select the best configuration of a group by the stored means.

    Indices hold the configurations in order of their means: all, those with several seeds, and
    averages of seeds. So two index look-ups suffice for a group of any size: the highest mean, and
    then the means within rounding of it, among which `_round_mean` decides.
    """
    candidate, other = aliased(ConfigurationRecord), aliased(ConfigurationRecord)

    def of_group(each: Any) -> Any:
        return (each.group_id == GroupRecord.id) & among(each)

    highest = (
        select(other.mean).where(of_group(other)).order_by(other.mean.desc()).limit(1)
    ).correlate(GroupRecord)
    return (
        select(candidate.id)
        .where(of_group(candidate), candidate.mean >= highest.scalar_subquery() - 1 / _UNIT)
        .order_by(_round_mean(candidate.mean).desc(), candidate.hash.desc())
        .limit(1)
        .correlate(GroupRecord)
        .scalar_subquery()
    )
