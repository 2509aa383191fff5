"""What a leaderboard is made from: what a person can ask for, and the conditions in SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, CompoundSelect, Select, and_, false, or_, select, union
from sqlalchemy.orm import InstrumentedAttribute, Session

from cse_methods.published.released import SCORED_BY, names_of_released
from cse_platform.leaderboard.query.annotations import tagged, written_tags
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
    """One, or several with commas between them; encoders that were released from one pass too."""
    method: str | None = None
    sweep: str | None = None
    """Only trials that it holds."""
    tag: str | None = None
    """Only trials that bear this tag, or whose configuration or a sweep that holds them does."""
    configuration: str | None = None
    """Only configurations whose hash begins so."""
    identity: str | None = None
    """Only rows whose dev sets or evaluations have an identity that begins so. It does not change
    which configuration is selected on dev."""
    hardware: str | None = None
    """Only trials on a machine whose GPU, CPU or host has this in its name."""
    since: datetime | None = None
    """Only trials that finished then or later."""

    @property
    def keeps_groups_whole(self) -> bool:
        """Whether a group is let through with all its trials or not at all."""
        narrower = (self.sweep, self.tag, self.configuration, self.hardware, self.since)
        return all(one is None for one in narrower)


def group_conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """The conditions on groups."""
    conditions: list[ColumnElement[bool]] = []
    if filters.backbone is not None:
        conditions.append(_is_of(backbones_in(filters.backbone)))
    if filters.method is not None:
        conditions.append(GroupRecord.method == filters.method)
    return conditions


def _is_of(backbones: Sequence[str]) -> ColumnElement[bool]:
    """The condition on groups of these backbones, or of encoders released from one of them."""
    released = [
        part
        for name in names_of_released(backbones)
        for part in (GroupRecord.backbone == name, GroupRecord.backbone.startswith(f"{name}@"))
    ]
    scored = and_(GroupRecord.method == SCORED_BY, or_(false(), *released))
    return or_(GroupRecord.backbone.in_(backbones), scored)


def backbones_in(text: str) -> list[str]:
    """The backbones that a filter names, with commas between them."""
    return [name for part in text.split(",") if (name := part.strip())]


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
    if filters.sweep is not None:
        conditions.append(TrialRecord.id.in_(_held_by(SweepRecord.name == filters.sweep)))
    if filters.tag is not None:
        conditions.append(TrialRecord.id.in_(_bearing(filters.tag)))
    return conditions


def _held_by(sweeps: ColumnElement[bool]) -> Select[int]:
    """The trials that sweeps hold, by their ids."""
    return select(SweepTrialRecord.trial_id).join(SweepTrialRecord.sweep).where(sweeps)


def _bearing(tag: str) -> CompoundSelect[int]:
    """The trials that have a tag, or whose configuration or a sweep that holds them has it."""
    in_file = select(SweepTagRecord.sweep_id).where(SweepTagRecord.tag == tag)
    sweeps = or_(SweepRecord.id.in_(in_file), SweepRecord.name.in_(tagged("sweep", tag)))
    configurations = ConfigurationRecord.hash.in_(tagged("configuration", tag))
    return union(
        _held_by(sweeps),
        select(TrialRecord.id).where(TrialRecord.key.in_(tagged("trial", tag))),
        select(TrialRecord.id).join(TrialRecord.configuration).where(configurations),
    )


@dataclass(frozen=True)
class Catalogue:
    """The values that filters take, each list in order of the alphabet."""

    backbones: list[str]
    methods: list[str]
    sweeps: list[str]
    tags: list[str]
    machines: list[str]


def catalogue(session: Session) -> Catalogue:
    """The values of each filter that let something through."""

    def values(column: InstrumentedAttribute[str]) -> set[str]:
        return {*session.scalars(select(column).distinct())}

    return Catalogue(
        backbones=sorted(values(GroupRecord.backbone)),
        methods=sorted(values(GroupRecord.method)),
        sweeps=sorted(values(SweepRecord.name)),
        tags=sorted(values(SweepTagRecord.tag) | written_tags(session)),
        machines=sorted(values(MachineRecord.hardware)),
    )
