"""What a leaderboard is made from: what a person can ask for, and the conditions in SQL."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, or_, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import (
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
    asked = {GroupRecord.backbone: filters.backbone, GroupRecord.method: filters.method}
    return [column == value for column, value in asked.items() if value is not None]


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


def _held_by_sweeps(filters: Filters) -> Select[int]:
    query = select(SweepTrialRecord.trial_id).join(SweepTrialRecord.sweep)
    if filters.sweep is not None:
        query = query.where(SweepRecord.name == filters.sweep)
    if filters.tag is not None:
        query = query.join(SweepRecord.tags).where(SweepTagRecord.tag == filters.tag)
    return query


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
    backbone, method, sweep = GroupRecord.backbone, GroupRecord.method, SweepRecord.name
    columns = (backbone, method, sweep, SweepTagRecord.tag, MachineRecord.hardware)
    return Catalogue(*(sorted(session.scalars(select(one).distinct())) for one in columns))
