"""What a leaderboard can be filtered by."""

from dataclasses import dataclass

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import (
    GroupRecord,
    MachineRecord,
    SweepRecord,
    SweepTagRecord,
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

    def names(query: Select[str]) -> list[str]:
        return sorted(session.scalars(query.distinct()))

    return Catalogue(
        backbones=names(select(GroupRecord.backbone)),
        methods=names(select(GroupRecord.method)),
        sweeps=names(select(SweepRecord.name)),
        tags=names(select(SweepTagRecord.tag)),
        machines=names(select(MachineRecord.hardware)),
    )
