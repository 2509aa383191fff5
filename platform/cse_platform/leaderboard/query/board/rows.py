"""The ranking that `cse-leaderboard` shows. Scores are fractions."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Row, ScalarSelect, Select, func, select
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.query.board.scores import Evaluated, scores_by_evaluation
from cse_platform.leaderboard.query.board.selection import (
    Filters,
    selected_configurations,
    trial_conditions,
)
from cse_platform.leaderboard.query.trials.test_access import BUILTIN, first_test_accesses
from cse_platform.leaderboard.row import (
    FAMILIES,
    Configuration,
    DevSet,
    Estimate,
    FamilyName,
    LeaderboardRow,
    family_named,
)
from cse_platform.leaderboard.statistics.intervals import seed_interval
from cse_platform.leaderboard.store.tables import (
    ConfigurationRecord,
    GroupRecord,
    MachineRecord,
    SweepRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
)

AT_ONCE = 1000
"""Configurations in one query: databases limit its parameters."""

IMPORTED = "imported"
"""The source of data that another program read."""

MAIN_FAMILIES: tuple[FamilyName, ...] = ("sts", "transfer", "long")
"""Each of their tasks has one number, the one that papers report."""


@dataclass(frozen=True)
class Catalogue:
    """What a leaderboard can be filtered by."""

    backbones: list[str]
    methods: list[str]
    sweeps: list[str]
    tags: list[str]
    machines: list[str]


def board_rows(
    session: Session,
    filters: Filters | None = None,
    *,
    families: Sequence[FamilyName] = MAIN_FAMILIES,
    per_configuration: bool = False,
    limit: int | None = None,
) -> list[LeaderboardRow]:
    """A row per method, backbone, dev and evaluation identity, best dev mean first.

    Args:
        session: of an open leaderboard.
        filters: what it is made from.
        families: of the test scores.
        per_configuration: a row for every configuration with a complete trial.
        limit: only so many rows, those with the highest dev means.
    """
    filters = filters or Filters()
    in_sql = limit if filters.identity is None else None  # identities are compared afterwards
    chosen = selected_configurations(filters, per_configuration=per_configuration, limit=in_sql)
    effort = {one.id: one for one in session.execute(select(chosen)) if one.id is not None}
    opened = first_test_accesses(session)
    ids = list(effort)
    rows = [
        row
        for start in range(0, len(ids), AT_ONCE)
        for row in _batch(session, effort, ids[start : start + AT_ONCE], filters, families, opened)
    ]
    wanted = [row for row in rows if filters.identity is None or _is_of(row, filters.identity)]
    order = sorted(
        wanted, key=lambda row: (-row.dev_score.mean, row.method, row.configuration.hash)
    )
    return order[:limit]


def _batch(
    session: Session,
    effort: Mapping[int, Row[Any]],
    ids: Sequence[int],
    filters: Filters,
    families: Sequence[FamilyName],
    opened: Mapping[tuple[str, bool], datetime],
) -> Iterator[LeaderboardRow]:
    scores = scores_by_evaluation(session, ids, [family_named(name) for name in families])
    tags = _tags(session, ids)
    for configuration, seeds in groupby(
        session.execute(_seeds(ids, filters)), lambda line: line[0].id
    ):
        yield from _rows(list(seeds), effort[configuration], scores, tags, opened)


def catalogue(session: Session) -> Catalogue:
    """What there is to filter by, in order of name."""

    def names(query: Select[str]) -> list[str]:
        return sorted(session.scalars(query.distinct()))

    return Catalogue(
        backbones=names(select(GroupRecord.backbone)),
        methods=names(select(GroupRecord.method)),
        sweeps=names(select(SweepRecord.name)),
        tags=names(select(SweepTagRecord.tag)),
        machines=names(select(MachineRecord.hardware)),
    )


def _seeds(configurations: Sequence[int], filters: Filters) -> Select[*tuple[Any, ...]]:
    """One line a complete seed."""
    return (
        select(
            ConfigurationRecord,
            GroupRecord,
            TrialRecord.seed,
            TrialRecord.key,
            TrialRecord.best_value,
            TrialRecord.start_value,
            TrialRecord.finished,
            MachineRecord.host,
            MachineRecord.hardware,
            _first_sweep(filters.sweep).label("sweep"),
            _first_start().label("first_start"),
        )
        .join(GroupRecord, GroupRecord.id == ConfigurationRecord.contest_id)
        .join(TrialRecord, TrialRecord.configuration_id == ConfigurationRecord.id)
        .outerjoin(MachineRecord, MachineRecord.id == TrialRecord.machine_id)
        .where(
            ConfigurationRecord.id.in_(configurations),
            TrialRecord.state == "COMPLETE",
            *trial_conditions(filters),
        )
        .order_by(ConfigurationRecord.id, TrialRecord.seed)
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


def _tags(session: Session, configurations: Sequence[int]) -> Mapping[int, list[str]]:
    query = (
        select(TrialRecord.configuration_id, SweepTagRecord.tag)
        .join(SweepTrialRecord, SweepTrialRecord.trial_id == TrialRecord.id)
        .join(SweepTagRecord, SweepTagRecord.sweep_id == SweepTrialRecord.sweep_id)
        .where(TrialRecord.configuration_id.in_(configurations))
        .distinct()
        .order_by(SweepTagRecord.tag)
    )
    found: dict[int, list[str]] = defaultdict(list)
    for configuration, tag in session.execute(query):
        found[configuration].append(tag)
    return found


def _rows(
    seeds: Sequence[Row[Any]],
    effort: Row[Any],
    scores: Mapping[int, list[Evaluated]],
    tags: Mapping[int, list[str]],
    opened: Mapping[tuple[str, bool], datetime],
) -> list[LeaderboardRow]:
    """The rows of one configuration: one for each evaluation identity, or one without scores."""
    first: Any = seeds[0]
    one, contest = first[0], first[1]
    starts = [line.start_value for line in seeds if line.start_value is not None]
    at = opened.get((contest.method, contest.dev_source == BUILTIN))
    machines = dict.fromkeys(f"{line.host} · {line.hardware}" for line in seeds if line.host)
    mine = {line.seed for line in seeds}
    return [
        LeaderboardRow(
            method=contest.method,
            backbone=contest.backbone,
            sweep=first.sweep,
            configuration=Configuration(one.hash, one.values, one.searched),
            seeds=[line.seed for line in seeds],
            keys={line.seed: line.key for line in seeds},
            dev=DevSet(
                contest.dev_checkpoint,
                contest.dev_search,
                contest.dev_identity,
                contest.dev_source,
            ),
            dev_score=estimate(
                {line.seed: line.best_value for line in seeds},
                contest.dev_identity,
                contest.dev_source,
            ),
            dev_untrained=math.fsum(starts) / len(starts) if starts else None,
            trials=int(effort.trials),
            gpu_hours=None if contest.dev_source == IMPORTED else effort.gpu_seconds / 3600,
            finished=max(line.finished for line in seeds),
            machines=list(machines),
            tags=tags.get(one.id, []),
            corpus=one.corpus,
            scores=_estimates(evaluated, mine),
            test_opened=at if at and at < first.first_start else None,
        )
        for evaluated in scores.get(one.id, [{}])
    ]


def _estimates(evaluated: Evaluated, seeds: set[int]) -> dict[str, Estimate]:
    """In the papers' order, of the seeds that the filters let through."""
    order = [column for family in FAMILIES.values() for column in family.columns]
    found = {}
    for column in sorted(evaluated, key=order.index):
        scores = evaluated[column]
        if kept := {seed: scores.values[seed] for seed in sorted(scores.values) if seed in seeds}:
            found[column] = estimate(kept, scores.identity, scores.source)
    return found


def estimate(values: Mapping[int, float], identity: str, source: str) -> Estimate:
    """One score over seeds, with Student's interval where there are several.

    Args:
        values: fractions by seed, at least one.
        identity: what they are comparable by.
        source: of their data.
    """
    mean = math.fsum(values.values()) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values.values())
    return Estimate(
        values=dict(values),
        mean=mean,
        std=math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None,
        best=max(values.values()),
        interval=seed_interval(list(values.values())),
        identity=identity,
        source=source,
    )


def _is_of(row: LeaderboardRow, identity: str) -> bool:
    """Whether its dev sets or one of its scores have an identity that begins so."""
    identities = [row.dev.identity, *(score.identity for score in row.scores.values())]
    return any(one.startswith(identity) for one in identities)
