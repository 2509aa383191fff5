"""The test scores of configurations, seed by seed, as one row for each evaluation identity."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest

from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.families import (
    BENCHMARK,
    COLUMN_METRICS,
    MTEB,
    OWN,
    BoardFamily,
    is_of_mteb,
    is_own,
)
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    EvaluationRecord,
    ScoreRecord,
    TrialRecord,
)
from cse_platform.tracking.events import MAIN_METRICS


@dataclass
class SeedScores:
    """The scores of one column under one evaluation identity, over the seeds of a configuration."""

    identity: str
    last: datetime
    """When the last of them was measured."""
    source: str = ""
    """The source of the data; empty if unknown."""
    data_sha256: str = ""
    """The hash of the data; empty for averages."""
    reading: str = ""
    """How the encoder read its texts; empty if unknown."""
    members: frozenset[str] = frozenset()
    """The identities of the scores that an average is over."""
    values: dict[int, float] = field(default_factory=dict)

    @property
    def weight(self) -> tuple[int, datetime]:
        """The sort key: more seeds weigh more, then a later measurement."""
        return len(self.values), self.last

    @property
    def kind(self) -> tuple[str, str]:
        """What scores without an average must have in common to share a row."""
        return self.reading, self.source


Evaluated = dict[str, SeedScores]
"""The scores of one row, by column."""
Scored = dict[tuple[str, str], SeedScores]
"""The scores of one configuration, by column and identity."""
_OPEN_FAMILIES: dict[str, Callable[[str], bool]] = {OWN: is_own, MTEB: is_of_mteb}
"""What says whether a column is of a family whose columns are those that have scores."""


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
    rows: dict[int, list[Evaluated]] = {}
    for configuration, scores in scored.items():
        alike: dict[object, list[list[Scored]]] = {}
        for index, family in enumerate(families):
            if (holds := _OPEN_FAMILIES.get(family.name)) is not None:
                columns = tuple(dict.fromkeys(column for column, _ in scores if holds(column)))
                averages = tuple(column for column in columns if column.startswith(BENCHMARK))
                family = BoardFamily(family.name, columns, averages)
            for kind, group in _group_family_scores(scores, family):
                alike.setdefault(kind, [[] for _ in families])[index].append(group)
        rows[configuration] = []
        for by_family in alike.values():
            for groups in zip_longest(*by_family, fillvalue={}):
                kept = {key for group in groups for key in group}
                rows[configuration].append(
                    {key[0]: seeds for key, seeds in scores.items() if key in kept}
                )
    return rows


def _read_scores(
    session: Session, configurations: Sequence[int], families: Sequence[BoardFamily]
) -> dict[int, Scored]:
    """Read the test scores of these families by configuration, with the facts of each identity."""
    columns = {column for family in families for column in family.columns}
    wanted = [holds for name, holds in _OPEN_FAMILIES.items() if name in {f.name for f in families}]
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
        .join(TrialRecord.shown)
        .join(TrialRecord.scores)
        .where(
            TrialRecord.configuration_id.in_(configurations),
            AttemptRecord.state == "COMPLETE",
            ScoreRecord.split == "test",
            ScoreRecord.metric.in_(sorted(MAIN_METRICS | set(COLUMN_METRICS))),
        )
        .order_by(ScoreRecord.measured, ScoreRecord.place)
    )
    scored: dict[int, Scored] = defaultdict(dict)
    for configuration, seed, task, metric, identity, value, measured in session.execute(query):
        column = task if metric in MAIN_METRICS else f"{task}_{metric}"
        if column in columns or any(holds(column) for holds in wanted):
            new = SeedScores(identity, measured)
            seeds = scored[configuration].setdefault((column, identity), new)
            seeds.values[seed], seeds.last = value, max(seeds.last, measured)
    records = read_evaluations(session, (name for scores in scored.values() for _, name in scores))
    for seeds in (seeds for scores in scored.values() for seeds in scores.values()):
        if (record := records.get(seeds.identity)) is not None:
            seeds.source = record.source or ""
            seeds.data_sha256 = record.settings.get("data_sha256", "")
            reading = sorted(record.settings.get("reading", {}).items())
            # Which prompts a task of mteb uses follows from its kind.
            seeds.reading = repr([item for item in reading if not item[0].endswith(" prompt")])
            seeds.members = frozenset(record.settings.get("protocol", {}).get("mean over", ()))
    return scored


def read_evaluations(session: Session, identities: Iterable[str]) -> dict[str, EvaluationRecord]:
    """Read the evaluations of these identities, by identity; unknown ones are absent."""
    condition = EvaluationRecord.identity.in_(sorted(set(identities)))
    stored = session.scalars(select(EvaluationRecord).where(condition))
    return {record.identity: record for record in stored}


def _group_family_scores(scored: Scored, family: BoardFamily) -> list[tuple[object, Scored]]:
    """Group the scores of one family that share a row, best group first, each with its kind.

    An average comes with the scores that it is over. Those with an average choose first, then the
    heaviest: each joins the first group of its kind that has its columns under no other identity.
    """
    left = {key: scores for key, scores in scored.items() if key[0] in family.columns}
    units: list[tuple[object, Scored]] = []
    averages = {key[1]: scores for key, scores in left.items() if key[0] in family.averages}
    for identity, average in averages.items():
        group = {k: seeds for k, seeds in left.items() if k[1] in {identity, *average.members}}
        _fill_averages(group, family, identity)
        known = [seeds for seeds in group.values() if seeds.identity != identity and seeds.reading]
        first = min(known, key=lambda seeds: seeds.identity, default=average)
        units.append((first.kind, group))
    grouped = {key for _, group in units for key in group}
    units += [(scores.kind, {key: scores}) for key, scores in left.items() if key not in grouped]

    def weigh(group: Scored) -> tuple[bool, tuple[int, datetime], str]:
        whole = any(column in family.averages for column, _ in group)
        heaviest = max(scores.weight for scores in group.values())
        return whole, heaviest, min(identity for _, identity in group)

    groups: list[tuple[object, Scored]] = []
    for kind, unit in sorted(units, key=lambda unit: weigh(unit[1]), reverse=True):
        for other, group in groups:
            apart = [column for column, _ in group.keys() ^ unit.keys()]
            if other == kind and len({*apart}) == len(apart):
                group |= unit
                break
        else:
            groups.append((kind, unit))
    return groups


def _fill_averages(group: Scored, family: BoardFamily, identity: str) -> None:
    """Compute the average for seeds that have a score on each task but no average."""
    for average in family.averages:
        if (average, identity) not in group:
            continue
        over, known = family.columns_of(average), group[average, identity].members
        members = [scores for (column, _), scores in group.items() if column in over]
        if len(members) < len(known or over):
            continue
        values = group[average, identity].values
        for seed in set.intersection(*(set(scores.values) for scores in members)) - values.keys():
            values[seed] = math.fsum(scores.values[seed] for scores in members) / len(members)
