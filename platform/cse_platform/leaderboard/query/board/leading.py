"""The best configurations of earlier sweeps, for a new one to start from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.query.board.best import best_first
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)


@dataclass(frozen=True)
class Leading:
    """A configuration, and how it did."""

    sweep: str
    """The first that tried it."""
    backbone: str
    values: dict[str, Any]
    """All its hyperparameters."""
    mean: float
    """Of the dev scores of its complete seeds, a fraction."""
    seeds: int


def leading_configurations(
    session: Session, *, method: str, backbone: str, dev_identity: str, but: str, limit: int
) -> list[Leading]:
    """The best configurations of a method in sweeps other than `but`, the best first.

    All are of one group, for means of several cannot be compared: of the same backbone if there is
    any, and then with the same dev data; else of the backbone with the most trials.
    """
    for group in _groups(session, method, backbone, dev_identity):
        if found := list(_best_of(session, group, but=but, limit=limit)):
            return found
    return []


def _groups(session: Session, method: str, backbone: str, dev_identity: str) -> list[GroupRecord]:
    """All groups of a method, the most akin first."""
    groups = session.scalars(select(GroupRecord).where(GroupRecord.method == method))

    def kinship(group: GroupRecord) -> tuple[bool, bool, int, int]:
        same_data = group.dev_identity == dev_identity
        return group.backbone == backbone, same_data, group.trials, -group.id

    return sorted(groups, key=kinship, reverse=True)


def _best_of(session: Session, group: GroupRecord, *, but: str, limit: int) -> Iterator[Leading]:
    one = ConfigurationRecord
    places = (
        select(SweepRecord.name)
        .join(SweepRecord.places)
        .join(SweepTrialRecord.trial)
        .where(TrialRecord.configuration_id == one.id, SweepRecord.name != but)
    )
    first = places.order_by(SweepRecord.id).limit(1).correlate(one).scalar_subquery()
    query = (
        select(first, one.values, one.mean, one.n)
        .where(one.group_id == group.id, one.n > 0, exists(places.correlate(one)))
        .order_by(*best_first(one.n, one.mean, one.hash))
        .limit(limit)
    )
    for sweep, values, mean, seeds in session.execute(query):
        if mean is not None:
            yield Leading(sweep, group.backbone, values, mean, seeds)
