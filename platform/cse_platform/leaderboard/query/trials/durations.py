"""How long complete trials took, for whoever plans more of the same kind."""

from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    DevPointRecord,
    GroupRecord,
    TrialRecord,
)

NEWEST = 50
"""So many trials are asked."""


class PastTrial(NamedTuple):
    """What a complete trial took."""

    seconds: float
    steps: int
    values: dict[str, Any]
    """Its hyperparameters."""


def past_trials(session: Session, *, method: str, backbone: str, gpu: bool) -> list[PastTrial]:
    """The newest complete trials of a method on a backbone, on a GPU or without one."""
    steps = func.max(DevPointRecord.step)
    query = (
        select(TrialRecord.wall_seconds, steps, ConfigurationRecord.values)
        .join(TrialRecord.configuration)
        .join(ConfigurationRecord.group)
        .join(TrialRecord.points)
        .where(
            GroupRecord.method == method,
            GroupRecord.backbone == backbone,
            TrialRecord.state == "COMPLETE",
            TrialRecord.wall_seconds > 0,
            (TrialRecord.gpu_seconds > 0) == gpu,
        )
        .group_by(TrialRecord.id, ConfigurationRecord.id)
        .order_by(TrialRecord.id.desc())
        .limit(NEWEST)
    )
    return [PastTrial(*row) for row in session.execute(query) if row[1]]
