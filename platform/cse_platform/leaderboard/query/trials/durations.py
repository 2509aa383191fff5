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
    """From its start to its end, on all machines that it has run on."""
    to_first_point: float
    """Of these until its first dev point: its process starts, and reads encoder and data."""
    steps: int
    values: dict[str, Any]
    """Its hyperparameters."""


def past_trials(session: Session, *, method: str, backbone: str, gpu: bool) -> list[PastTrial]:
    """The newest complete trials of a method on a backbone, on a GPU or without one."""
    steps, first = func.max(DevPointRecord.step), func.min(DevPointRecord.reported_at)
    query = (
        select(
            *(TrialRecord.wall_seconds, TrialRecord.started, first),
            *(steps, ConfigurationRecord.values),
        )
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
    return [
        PastTrial(seconds, min((first - started).total_seconds(), seconds), steps, values)
        for seconds, started, first, steps, values in session.execute(query)
        if steps
    ]
