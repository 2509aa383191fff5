"""The ranking that `cse-leaderboard` shows. Correlations are fractions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, cast

from sqlalchemy import CTE, Row, ScalarSelect, Select, func, select
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.models import (
    ConfigurationRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.leaderboard.tests_opened import (
    BUILTIN,
    TestMean,
    first_releases,
    test_means,
)


@dataclass(frozen=True)
class DevSet:
    """The dev sets behind a value."""

    checkpoint: str
    search: str
    identity: str
    source: str


@dataclass(frozen=True)
class Configuration:
    """One assignment of hyperparameters."""

    hash: str
    values: dict[str, Any]
    searched: list[str]
    """The names among `values` that a sweep varied."""


@dataclass(frozen=True)
class LeaderboardRow:
    """One configuration over its seeds; by default the chosen one of method, backbone, dev set."""

    method: str
    backbone: str
    sweep: str
    """The first sweep that holds the configuration."""
    configuration: Configuration
    seeds: list[int]
    n: int
    dev: DevSet
    dev_mean: float
    dev_std: float | None
    """Over seeds, with n - 1; None for a single one."""
    dev_untrained: float | None
    """Mean at step 0: the backbone before training."""
    trials: int
    """How many trials, of any state, the choice was made from."""
    test: dict[str, float] = field(default_factory=dict)
    """Mean over the complete seeds that were scored, by task."""
    evaluation: dict[str, str] = field(default_factory=dict)
    """The identity that these scores are of, by task."""
    test_seeds: dict[str, int] = field(default_factory=dict)
    """How many seeds were scored, by task."""
    test_opened: datetime | None = None
    """When test sets, built-in or real as its dev sets are, were first opened for the method, if
    that was before this configuration's first trial started: they may have helped to pick it.
    One that was tried before that and promoted later has None."""


@dataclass(frozen=True)
class Catalogue:
    """What a leaderboard can be filtered by."""

    backbones: list[str]
    methods: list[str]
    sweeps: list[str]


def leaderboard(
    session: Session,
    *,
    backbone: str | None = None,
    method: str | None = None,
    sweep: str | None = None,
    per_configuration: bool = False,
) -> list[LeaderboardRow]:
    """One row per method, backbone and dev identity, best dev mean first.

    A configuration with more than one seed is chosen before any with a single, maybe lucky, one;
    among equals the higher mean wins.

    Args:
        session: of an open leaderboard.
        backbone: only rows of this encoder.
        method: only rows of this method.
        sweep: only configurations that this sweep has tried.
        per_configuration: a row for every configuration with a complete trial.
    """
    query = _ranked()
    if backbone is not None:
        query = query.where(ConfigurationRecord.backbone == backbone)
    if method is not None:
        query = query.where(ConfigurationRecord.method == method)
    if sweep is not None:
        query = query.where(ConfigurationRecord.id.in_(_tried_by(sweep)))
    ranked = query.cte("ranked")
    shown = select(ranked.c.id)
    if not per_configuration:
        shown = shown.where(ranked.c.place == 1)
    lines = session.execute(_with_seeds(ranked, shown, sweep))
    tests, opened = test_means(session, shown), first_releases(session)
    return [
        _row(
            list(seeds),
            tests.get(one.id, {}),
            opened.get((one.method, one.dev_source == BUILTIN)),
        )
        for one, seeds in groupby(lines, lambda line: line[0])
    ]


def catalogue(session: Session) -> Catalogue:
    """Every backbone, method and sweep that is on the leaderboard, in order of name."""

    def names(query: Select[str]) -> list[str]:
        return sorted(session.scalars(query.distinct()))

    return Catalogue(
        backbones=names(select(ConfigurationRecord.backbone)),
        methods=names(select(ConfigurationRecord.method)),
        sweeps=names(select(SweepRecord.name)),
    )


def _ranked() -> Select[Any]:
    """Configurations with their place among, and the trials of, method, backbone and dev set."""
    one = ConfigurationRecord
    group = (one.method, one.backbone, one.dev_identity)
    best_first = ((one.n > 1).desc(), (one.n > 0).desc(), one.mean.desc(), one.hash)
    return select(
        one.id,
        func.row_number().over(partition_by=group, order_by=best_first).label("place"),
        func.sum(one.trials).over(partition_by=group).label("spent"),
    )


def _tried_by(sweep: str) -> Select[int]:
    return (
        select(TrialRecord.configuration_id)
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == TrialRecord.id)
        .join(SweepRecord, SweepRecord.id == SweepTrialRecord.sweep_id)
        .where(SweepRecord.name == sweep)
    )


def _with_seeds(ranked: CTE, shown: Select[int], sweep: str | None) -> Select[Any]:
    """One line a complete seed of every configuration that is shown."""
    one = ConfigurationRecord
    return (
        select(
            one,
            TrialRecord.seed,
            TrialRecord.start_value,
            ranked.c.spent,
            _first_sweep(sweep).label("sweep"),
            _first_start().label("first_start"),
        )
        .join(ranked, ranked.c.id == one.id)
        .join(TrialRecord, TrialRecord.configuration_id == one.id)
        .where(TrialRecord.state == "COMPLETE", one.id.in_(shown))
        .order_by(one.mean.desc(), one.method, one.hash, TrialRecord.seed)
    )


def _first_sweep(sweep: str | None) -> ScalarSelect[str]:
    tried = aliased(TrialRecord)
    query = (
        select(SweepRecord.name)
        .join(SweepTrialRecord, SweepTrialRecord.sweep_id == SweepRecord.id)
        .join(tried, tried.id == SweepTrialRecord.trial_id)
        .where(tried.configuration_id == ConfigurationRecord.id)
        .order_by(SweepRecord.id)
        .limit(1)
        .correlate(ConfigurationRecord)
    )
    return (query if sweep is None else query.where(SweepRecord.name == sweep)).scalar_subquery()


def _first_start() -> ScalarSelect[datetime]:
    tried = aliased(TrialRecord)
    query = select(func.min(tried.started)).where(tried.configuration_id == ConfigurationRecord.id)
    return query.correlate(ConfigurationRecord).scalar_subquery()


def _row(
    seeds: Sequence[Row[Any]], tests: Mapping[str, TestMean], opened: datetime | None
) -> LeaderboardRow:
    one: ConfigurationRecord = seeds[0][0]
    starts = [line.start_value for line in seeds if line.start_value is not None]
    return LeaderboardRow(
        method=one.method,
        backbone=one.backbone,
        sweep=seeds[0].sweep,
        configuration=Configuration(one.hash, one.values, one.searched),
        seeds=[line.seed for line in seeds],
        n=one.n,
        dev=DevSet(one.dev_checkpoint, one.dev_search, one.dev_identity, one.dev_source),
        dev_mean=cast(float, one.mean),  # the table sees to it where n > 0
        dev_std=math.sqrt(one.m2 / (one.n - 1)) if one.n > 1 else None,
        dev_untrained=math.fsum(starts) / len(starts) if starts else None,
        trials=int(seeds[0].spent),
        test={task: mean.value for task, mean in tests.items()},
        evaluation={task: mean.identity for task, mean in tests.items()},
        test_seeds={task: mean.seeds for task, mean in tests.items()},
        test_opened=opened if opened and opened < seeds[0].first_start else None,
    )
