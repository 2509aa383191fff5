"""Reads the test scores of configurations, by evaluation identity, and the cosines behind them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Literal, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_methods.tasks import CONTAMINATION_METRICS, STS_TASKS, TRANSFER_TASKS
from cse_platform.leaderboard.records import (
    COLUMN_METRICS,
    OWN,
    BoardFamily,
    Place,
    SeenSentences,
    is_own,
)
from cse_platform.stores.sql.tables import EvaluationRecord, ScoreRecord, TrialRecord
from cse_platform.tracking.events import MAIN_METRICS

LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


@dataclass
class SeedScores:
    """The scores of one column and identity over the seeds of a configuration."""

    values: dict[int, float] = field(default_factory=dict)
    """The scores by seed."""
    last: datetime = LONG_AGO

    @property
    def weight(self) -> tuple[int, datetime]:
        """The sort key: more seeds weigh more, then a later measurement."""
        return len(self.values), self.last


@dataclass(frozen=True)
class EvaluationFacts:
    """The settings of an evaluation identity that decide which scores share a row."""

    source: str = ""
    """The source of the data; empty if unknown."""
    reading: str = ""
    """How the encoder read its texts."""
    members: frozenset[str] = frozenset()
    """The identities of the scores that an average is over."""


@dataclass(frozen=True)
class ColumnScores:
    """The scores of one column of one row."""

    identity: str
    source: str
    values: dict[int, float]
    """The scores by seed."""


Evaluated = dict[str, ColumnScores]
"""The scores of one row, by column."""


def scores_by_evaluation(
    session: Session, configurations: Sequence[int], families: Sequence[BoardFamily]
) -> dict[int, list[Evaluated]]:
    """Read test scores by configuration, as one row for each evaluation identity.

    An average shares a row with the scores that it is over; a seed that has all of these but no
    average gets it computed. Scores without an average share a row if the encoder read its texts in
    the same way and the data has the same source. A task scored under several identities gives
    several rows: the identity with the most seeds comes first, ties go to the latest measurement.
    """
    scored = _read_scores(session, configurations, families)
    own = {column for scores in scored.values() for column, _ in scores if is_own(column)}
    families = [
        replace(family, columns=tuple(sorted(own))) if family.name == OWN else family
        for family in families
    ]
    facts = _read_facts(session, {identity for scores in scored.values() for _, identity in scores})
    return {
        configuration: _build_rows(scores, families, facts)
        for configuration, scores in scored.items()
    }


Scored = dict[tuple[str, str], SeedScores]
"""The scores of one configuration, by column and identity."""
Facts = Mapping[str, EvaluationFacts]
"""The facts of evaluations, by identity."""
UNKNOWN = EvaluationFacts()


def _read_scores(
    session: Session, configurations: Sequence[int], families: Sequence[BoardFamily]
) -> dict[int, Scored]:
    columns = {column for family in families for column in family.columns}
    wants_own = any(family.name == OWN for family in families)
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
        .select_from(TrialRecord)
        .join(TrialRecord.scores)
        .where(
            TrialRecord.configuration_id.in_(configurations),
            TrialRecord.state == "COMPLETE",
            ScoreRecord.split == "test",
            ScoreRecord.metric.in_(sorted(MAIN_METRICS | set(COLUMN_METRICS))),
        )
    )
    scored: dict[int, Scored] = defaultdict(lambda: defaultdict(SeedScores))
    for configuration, seed, task, metric, identity, value, measured in session.execute(query):
        column = task if metric in MAIN_METRICS else f"{task}_{metric}"
        if column in columns or (wants_own and is_own(column)):
            seeds = scored[configuration][column, identity]
            seeds.values[seed], seeds.last = value, max(seeds.last, measured)
    return scored


def _read_facts(session: Session, identities: Iterable[str]) -> dict[str, EvaluationFacts]:
    query = select(EvaluationRecord).where(EvaluationRecord.identity.in_(sorted(identities)))
    return {
        record.identity: EvaluationFacts(
            source=record.source or "",
            reading=repr(sorted(record.settings.get("reading", {}).items())),
            members=frozenset(record.settings.get("protocol", {}).get("mean over", ())),
        )
        for record in session.scalars(query)
    }


def _build_rows(scored: Scored, families: Sequence[BoardFamily], facts: Facts) -> list[Evaluated]:
    alike: dict[object, list[list[Scored]]] = {}
    for index, family in enumerate(families):
        for kind, group in _group_family_scores(scored, family, facts):
            alike.setdefault(kind, [[] for _ in families])[index].append(group)
    return [
        {
            column: ColumnScores(identity, facts.get(identity, UNKNOWN).source, measured.values)
            for group in groups
            for (column, identity), measured in (group or {}).items()
        }
        for by_family in alike.values()
        for groups in zip_longest(*by_family)
    ]


def _group_family_scores(
    scored: Scored, family: BoardFamily, facts: Facts
) -> list[tuple[object, Scored]]:
    """Group the scores of one family that share a row, best group first.

    Each group comes with the reading and source of its scores.
    """
    mine = {key: scores for key, scores in scored.items() if key[0] in family.columns}
    groups: list[tuple[object, Scored]] = []
    averages = [key for key in mine if key[0] in family.averages]
    placed: set[tuple[str, str]] = set(averages)
    for identity in dict.fromkeys(identity for _, identity in averages):
        members = facts.get(identity, UNKNOWN).members
        group = {k: scores for k, scores in mine.items() if k[1] in members or k[1] == identity}
        _fill_averages(group, family, identity)
        known = next((member for member in sorted(members) if member in facts), identity)
        groups.append((_make_kind_key(facts, known), group))
        placed |= group.keys()
    groups += _group_without_average(
        {key: scores for key, scores in mine.items() if key not in placed}, facts
    )
    return sorted(groups, key=lambda group: _weigh_group(group[1], family), reverse=True)


def _fill_averages(group: Scored, family: BoardFamily, identity: str) -> None:
    """Compute the average for seeds that have a score on each task but no average."""
    for average in family.averages:
        over = family.over(average)
        members = [scores for (column, _), scores in group.items() if column in over]
        if (average, identity) not in group or len(members) < len(over):
            continue
        values = group[average, identity].values
        for seed in set.intersection(*(set(scores.values) for scores in members)) - values.keys():
            values[seed] = math.fsum(scores.values[seed] for scores in members) / len(members)


def _group_without_average(scored: Scored, facts: Facts) -> list[tuple[object, Scored]]:
    """Group scores without an average by reading and source; identities with most seeds first."""
    by_column: dict[tuple[object, str], list[tuple[str, SeedScores]]] = defaultdict(list)
    for (column, identity), scores in scored.items():
        by_column[_make_kind_key(facts, identity), column].append((identity, scores))
    groups: dict[tuple[object, int], Scored] = defaultdict(dict)
    for (kind, column), several in by_column.items():
        several.sort(key=lambda entry: (entry[1].weight, entry[0]), reverse=True)
        for index, (identity, scores) in enumerate(several):
            groups[kind, index][column, identity] = scores
    return [(kind, group) for (kind, _), group in groups.items()]


def _make_kind_key(facts: Facts, identity: str) -> object:
    known = facts.get(identity, UNKNOWN)
    return known.reading, known.source


def _weigh_group(group: Scored, family: BoardFamily) -> tuple[bool, tuple[int, datetime], str]:
    """Return the sort key of a group: with an average first, then by its heaviest scores."""
    whole = any(column in family.averages for column, _ in group)
    heaviest = max(scores.weight for scores in group.values())
    return whole, heaviest, min(identity for _, identity in group)


def read_seen_sentences(
    session: Session, configurations: Sequence[int]
) -> dict[int, tuple[SeenSentences, ...]]:
    """Read how many sentences of test and dev sets each configuration has seen.

    For each set and place, the last evaluation of any of its trials counts.
    """
    query = (
        select(
            TrialRecord.configuration_id,
            ScoreRecord.task,
            ScoreRecord.split,
            ScoreRecord.metric,
            ScoreRecord.identity,
            ScoreRecord.value,
        )
        .select_from(TrialRecord)
        .join(TrialRecord.scores)
        .where(
            TrialRecord.configuration_id.in_(configurations),
            ScoreRecord.metric.in_(CONTAMINATION_METRICS),
        )
        .order_by(ScoreRecord.measured, ScoreRecord.identity)
    )
    counted = {(line[0], *line[1:4]): line for line in session.execute(query)}
    if not counted:
        return {}
    used = EvaluationRecord.identity.in_(sorted({line.identity for line in counted.values()}))
    records = session.scalars(select(EvaluationRecord).where(used))
    settings = {record.identity: record.settings for record in records}
    seen: dict[int, list[SeenSentences]] = defaultdict(list)
    for configuration, task, split, metric, identity, value in counted.values():
        sentences = settings[identity]["sentences"]
        seen[configuration].append(
            SeenSentences(
                task=task,
                split=cast(Literal["dev", "test"], split),
                place=cast("Place", metric.removeprefix("in_")),
                names=tuple(settings[identity]["in"]),
                sentences=sentences,
                found=round(value * sentences),
            )
        )
    return {name: tuple(sorted(sets, key=_place_set)) for name, sets in seen.items()}


def _place_set(seen: SeenSentences) -> tuple[int, bool, int, str]:
    """Return the sort key of a set: by place, then test before dev, then in the papers' order."""
    places, tasks = CONTAMINATION_METRICS, (*STS_TASKS, *TRANSFER_TASKS)
    known = tasks.index(seen.task) if seen.task in tasks else len(tasks)
    return places.index(f"in_{seen.place}"), seen.split == "dev", known, seen.task
