"""Results and trials of earlier sweeps, for a new sweep to start from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.filters import best_first
from cse_platform.leaderboard.stored_sweeps import find_sweep
from cse_platform.leaderboard.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.leaderboard.trials import select_trials


@dataclass(frozen=True)
class Leading:
    """A good configuration of an earlier sweep, and its dev score."""

    sweep: str
    """The first sweep that tried it."""
    backbone: str
    values: dict[str, Any]
    """The values of all its hyperparameters."""
    mean: float
    """The mean dev score of its complete seeds, a fraction."""
    seeds: int


def leading_configurations(
    session: Session, *, method: str, backbone: str, dev_identity: str, but: str, limit: int
) -> list[Leading]:
    """Find the best configurations of a method in sweeps other than `but`, the best first.

    All are of one group, for means of several cannot be compared: of the same backbone if there is
    any, and then with the same dev data; else of the backbone with the most trials.
    """
    for group in _sort_groups_by_kinship(session, method, backbone, dev_identity):
        if leading := list(_find_best_of_group(session, group, but=but, limit=limit)):
            return leading
    return []


def _sort_groups_by_kinship(
    session: Session, method: str, backbone: str, dev_identity: str
) -> list[GroupRecord]:
    """List all groups of a method, the most similar to ours first."""
    groups = session.scalars(select(GroupRecord).where(GroupRecord.method == method))

    def kinship(group: GroupRecord) -> tuple[bool, bool, int, int]:
        same_data = group.dev_identity == dev_identity
        return group.backbone == backbone, same_data, group.trials, -group.id

    return sorted(groups, key=kinship, reverse=True)


def _find_best_of_group(
    session: Session, group: GroupRecord, *, but: str, limit: int
) -> Iterator[Leading]:
    configuration = ConfigurationRecord
    places = (
        select(SweepRecord.name)
        .join(SweepRecord.places)
        .join(SweepTrialRecord.trial)
        .where(TrialRecord.configuration_id == configuration.id, SweepRecord.name != but)
    )
    first = places.order_by(SweepRecord.id).limit(1).correlate(configuration).scalar_subquery()
    query = (
        select(first, configuration.values, configuration.mean, configuration.n)
        .where(
            configuration.group_id == group.id,
            configuration.n > 0,
            exists(places.correlate(configuration)),
        )
        .order_by(*best_first(configuration.n, configuration.mean, configuration.hash))
        .limit(limit)
    )
    for sweep, values, mean, seeds in session.execute(query):
        if mean is not None:
            yield Leading(sweep, group.backbone, values, mean, seeds)


@dataclass(frozen=True)
class Tried:
    """A configuration that a sweep has completed."""

    number: int
    """The number of its first trial there."""
    backbone: str
    corpus: str
    dev_identity: str
    values: dict[str, Any]
    """The values of all its hyperparameters."""
    searched: tuple[str, ...]
    """The hyperparameters that the sweep varied, or another one that tried this configuration."""
    value: float
    """The mean dev score of the sweep's complete trials of it, a fraction."""


def tried_configurations(session: Session, name: str) -> tuple[str, list[Tried]]:
    """The method of a sweep, and the configurations that it has completed, by number.

    Raises:
        NotFoundError: if there is no such sweep; names the nearest.
    """
    sweep = find_sweep(session, name)
    configuration, group = ConfigurationRecord, GroupRecord
    first = func.min(SweepTrialRecord.number)
    query = (
        select_trials(
            first, group.backbone, configuration.corpus, group.dev_identity,
            configuration.values, configuration.searched, func.avg(TrialRecord.best_value),
        )
        .join(configuration.group)
        .where(SweepTrialRecord.sweep_id == sweep.id, TrialRecord.state == "COMPLETE")
        .group_by(configuration.id, group.id)
        .order_by(first)
    )  # fmt: skip
    tried = [
        Tried(number, backbone, corpus, identity, values, tuple(searched), float(mean))
        for number, backbone, corpus, identity, values, searched, mean in session.execute(query)
    ]
    return sweep.method, tried
