"""Test scores of configurations, put together by the evaluation that they are of."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.evaluation_models import EvaluationRecord, ScoreRecord
from cse_platform.leaderboard.models import TrialRecord
from cse_platform.leaderboard.row import RANKING_METRICS, Family
from cse_platform.tracking.events import MAIN_METRICS

LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


@dataclass
class Measured:
    """One column under one identity, over the seeds of one configuration."""

    values: dict[int, float] = field(default_factory=dict)
    """By seed."""
    last: datetime = LONG_AGO

    @property
    def weight(self) -> tuple[int, datetime]:
        """More seeds stand before fewer, later measurements before earlier ones."""
        return len(self.values), self.last


Column = str
Evaluated = dict[Column, tuple[str, dict[int, float]]]
"""What one row shows: by column the identity and, by seed, the values."""


def scores_on_test(
    session: Session, configurations: Select[Any], families: Sequence[Family]
) -> dict[int, list[Evaluated]]:
    """By configuration, its scores on test, once for each evaluation identity.

    An average stands with the very scores it is the mean of. Scores without an average stand
    together if the encoder read its texts alike. What is of one reading is one row, unless a
    task was scored under several identities: that with the most seeds comes first, of equals the
    one that was measured last.

    Args:
        session: of an open leaderboard.
        configurations: their ids.
        families: whose columns are wanted.
    """
    found = _measured(session, configurations, families)
    told = _settings(session, {identity for one in found.values() for _, identity in one})
    return {configuration: _rows(one, families, told) for configuration, one in found.items()}


Scored = dict[tuple[Column, str], Measured]
"""By column and identity."""
Settings = Mapping[str, Mapping[str, Any]]


def _measured(
    session: Session, configurations: Select[Any], families: Sequence[Family]
) -> dict[int, Scored]:
    columns = {column for family in families for column in family.columns}
    query = (
        select(
            TrialRecord.configuration_id,
            TrialRecord.seed,
            ScoreRecord.task,
            ScoreRecord.metric,
            ScoreRecord.identity,
            ScoreRecord.value,
            ScoreRecord.measured,
        )
        .join(TrialRecord, TrialRecord.id == ScoreRecord.trial_id)
        .where(
            TrialRecord.configuration_id.in_(configurations),
            TrialRecord.state == "COMPLETE",
            ScoreRecord.split == "test",
            ScoreRecord.metric.in_(sorted(MAIN_METRICS | set(RANKING_METRICS))),
        )
    )
    found: dict[int, Scored] = defaultdict(lambda: defaultdict(Measured))
    for configuration, seed, task, metric, identity, value, measured in session.execute(query):
        column = task if metric in MAIN_METRICS else f"{task}_{metric}"
        if column in columns:
            one = found[configuration][column, identity]
            one.values[seed], one.last = value, max(one.last, measured)
    return found


def _settings(session: Session, identities: Iterable[str]) -> Settings:
    query = select(EvaluationRecord.identity, EvaluationRecord.settings)
    query = query.where(EvaluationRecord.identity.in_(sorted(identities)))
    return {one.identity: one.settings for one in session.execute(query)}


def _rows(scored: Scored, families: Sequence[Family], told: Settings) -> list[Evaluated]:
    readings: dict[str, list[list[Scored]]] = {}
    for place, family in enumerate(families):
        for reading, group in _groups(scored, family, told):
            readings.setdefault(reading, [[] for _ in families])[place].append(group)
    return [
        {
            column: (identity, measured.values)
            for group in groups
            for (column, identity), measured in (group or {}).items()
        }
        for by_family in readings.values()
        for groups in zip_longest(*by_family)
    ]


def _groups(scored: Scored, family: Family, told: Settings) -> list[tuple[str, Scored]]:
    """Scores of one family that stand together, and how their texts were read; best first."""
    mine = {key: one for key, one in scored.items() if key[0] in family.columns}
    groups: list[tuple[str, Scored]] = []
    averages = [key for key in mine if key[0] in family.averages]
    placed: set[tuple[str, str]] = set(averages)
    for identity in dict.fromkeys(identity for _, identity in averages):
        members = set(told.get(identity, {}).get("protocol", {}).get("mean over", ()))
        group = {k: one for k, one in mine.items() if k[1] in members or k[1] == identity}
        known = next((member for member in sorted(members) if member in told), identity)
        groups.append((_reading(told, known), group))
        placed |= group.keys()
    groups += _alone({key: one for key, one in mine.items() if key not in placed}, told)
    return sorted(groups, key=lambda group: _weight(group[1], family), reverse=True)


def _alone(scored: Scored, told: Settings) -> list[tuple[str, Scored]]:
    by_column: dict[tuple[str, str], list[tuple[str, Measured]]] = defaultdict(list)
    for (column, identity), one in scored.items():
        by_column[_reading(told, identity), column].append((identity, one))
    groups: dict[tuple[str, int], Scored] = defaultdict(dict)
    for (reading, column), several in by_column.items():
        several.sort(key=lambda one: (one[1].weight, one[0]), reverse=True)
        for place, (identity, one) in enumerate(several):
            groups[reading, place][column, identity] = one
    return [(reading, group) for (reading, _), group in groups.items()]


def _reading(told: Settings, identity: str) -> str:
    return repr(sorted(told.get(identity, {}).get("reading", {}).items()))


def _weight(group: Scored, family: Family) -> tuple[bool, tuple[int, datetime], str]:
    """Those with an average come first."""
    whole = any(column in family.averages for column, _ in group)
    heaviest = max(one.weight for one in group.values())
    return whole, heaviest, min(identity for _, identity in group)
