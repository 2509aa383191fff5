"""Rows as the statistics take them: scores by seed, and the cosines behind them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.leaderboard.statistics.contenders import Contender
from cse_platform.leaderboard.store.score_tables import PairSetRecord, PairSimilaritiesRecord
from cse_platform.leaderboard.store.tables import ConfigurationRecord, TrialRecord
from cse_platform.tracking.packing import unpack_cosines, unpack_gold

PAIRED_AT_ONCE = 500
"""Configurations in one query: databases limit its parameters."""

Place = tuple[str, int, str, str]
"""Configuration's hash, seed, task and identity."""


def contenders(
    session: Session,
    rows: Mapping[str, LeaderboardRow],
    tasks: Sequence[str],
    *,
    scored_on: Sequence[str] = (),
) -> list[Contender]:
    """What is compared, with the cosines of those tasks where every seed has them.

    Each row has a score for each of the tasks, columns of one family without averages, and a seed
    that has all of them. `scored_on` has further columns that the seeds must have.
    """
    cosines, gold = _similarities(session, list(rows.values()), tasks)
    made = []
    for name, row in rows.items():
        seeds = common_seeds(row, [*tasks, *scored_on])
        places = {task: _places(row, seeds, task) for task in tasks}
        paired = {task: ps for task, ps in places.items() if all(place in cosines for place in ps)}
        made.append(
            Contender(
                name,
                {task: [row.scores[task].values[seed] for seed in seeds] for task in tasks},
                {task: np.stack([cosines[p][1] for p in ps]) for task, ps in paired.items()},
                {task: gold[cosines[ps[0]][0]] for task, ps in paired.items()},
            )
        )
    return made


def common_seeds(row: LeaderboardRow, tasks: Sequence[str]) -> list[int]:
    """The seeds that have a score for every one of these tasks."""
    scored = [row.scores[task].values.keys() for task in tasks]
    return [seed for seed in row.seeds if all(seed in one for one in scored)]


def _places(row: LeaderboardRow, seeds: Sequence[int], task: str) -> list[Place]:
    return [(row.configuration.hash, seed, task, row.scores[task].identity) for seed in seeds]


def _similarities(
    session: Session, rows: Sequence[LeaderboardRow], tasks: Sequence[str]
) -> tuple[dict[Place, tuple[str, NDArray[np.float32]]], dict[str, NDArray[Any]]]:
    """By place, the checksum of the pairs and their cosines; by checksum, gold."""
    hashes = sorted({row.configuration.hash for row in rows})
    wanted = {(row.configuration.hash, row.scores[task].identity) for row in rows for task in tasks}
    cosines: dict[Place, tuple[str, NDArray[np.float32]]] = {}
    for start in range(0, len(hashes), PAIRED_AT_ONCE):
        stored = _stored(hashes[start : start + PAIRED_AT_ONCE], tasks)
        for configuration, seed, task, identity, data, packed in session.execute(stored):
            if (configuration, identity) in wanted:
                cosines[configuration, seed, task, identity] = (data, unpack_cosines(packed))
    checksums = sorted({data for data, _ in cosines.values()})
    sets = select(PairSetRecord.data_sha256, PairSetRecord.gold)
    sets = sets.where(PairSetRecord.data_sha256.in_(checksums))
    return cosines, {data: unpack_gold(gold) for data, gold in session.execute(sets)}


def _stored(
    configurations: Sequence[str], tasks: Sequence[str]
) -> Select[str, int, str, str, str, bytes]:
    return (
        select(
            ConfigurationRecord.hash,
            TrialRecord.seed,
            PairSimilaritiesRecord.task,
            PairSimilaritiesRecord.identity,
            PairSimilaritiesRecord.data_sha256,
            PairSimilaritiesRecord.cosines,
        )
        .select_from(PairSimilaritiesRecord)
        .join(PairSimilaritiesRecord.trial)
        .join(TrialRecord.configuration)
        .where(ConfigurationRecord.hash.in_(configurations), PairSimilaritiesRecord.task.in_(tasks))
    )


def group_by_identity(rows: Sequence[LeaderboardRow]) -> dict[tuple[str | None, str], list[int]]:
    """Places of the rows that can be ranked together: by their ranked column and its identity."""
    groups: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        if (score := row.ranked_score) is not None:
            groups[row.headline, score.identity].append(place)
    return groups
