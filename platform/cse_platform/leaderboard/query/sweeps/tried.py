"""The configurations that a sweep has tried, with all that decides what their scores mean."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepTrialRecord,
    TrialRecord,
)


@dataclass(frozen=True)
class Tried:
    """A configuration that a sweep has completed."""

    number: int
    """Of its first trial there."""
    backbone: str
    corpus: str
    dev_identity: str
    values: dict[str, Any]
    """All its hyperparameters."""
    searched: tuple[str, ...]
    """Those that the sweep varied, or another one that tried this configuration."""
    value: float
    """The mean dev score of the sweep's complete trials of it, a fraction."""


def tried_configurations(session: Session, name: str) -> tuple[str, list[Tried]]:
    """The method that a sweep trains, and the configurations that it has completed, by number.

    Raises:
        NotFoundError: if there is no such sweep; names the nearest.
    """
    sweep = find_sweep(session, name)
    one, group = ConfigurationRecord, GroupRecord
    first = func.min(SweepTrialRecord.number)
    query = (
        select(
            first, group.backbone, one.corpus, group.dev_identity, one.values, one.searched,
            func.avg(TrialRecord.best_value),
        )
        .select_from(SweepTrialRecord)
        .join(SweepTrialRecord.trial)
        .join(TrialRecord.configuration)
        .join(one.group)
        .where(SweepTrialRecord.sweep_id == sweep.id, TrialRecord.state == "COMPLETE")
        .group_by(one.id, group.id)
        .order_by(first)
    )  # fmt: skip
    found = [
        Tried(number, backbone, corpus, identity, values, tuple(searched), float(mean))
        for number, backbone, corpus, identity, values, searched, mean in session.execute(query)
    ]
    return sweep.method, found
