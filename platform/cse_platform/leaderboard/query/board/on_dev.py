"""Compares two rows on their dev set, so that developing a method opens no test set."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cse_methods.errors import CseError
from cse_methods.metrics import spearman
from cse_platform.errors import ComparisonError
from cse_platform.leaderboard.query.board.comparisons import judged
from cse_platform.leaderboard.query.board.ranked_rows import Progress
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.leaderboard.statistics.contenders import Contender
from cse_platform.leaderboard.statistics.results import Comparison

SAME_SCORE = 0.005
"""A kept model scores as its trial did on dev, but for the last digits of another machine."""


class DevPairs(NamedTuple):
    """What a trial's kept model says of the pairs of the dev set that its search climbs."""

    gold: NDArray[np.float64]
    cosines: NDArray[np.float32]


PairsOf = Callable[[str], DevPairs]
"""By a trial's key; a CseError where its model or its dev data cannot be had any more."""


def compare_dev_rows(
    rows: Mapping[str, LeaderboardRow], pairs_of: PairsOf, *, progress: Progress | None = None
) -> Comparison:
    """The first row against the second on the dev set that both searches climb.

    Where the pairs of a row cannot be had, or a kept model does not score as its trial did, the
    intervals are over seeds only, and a note says why.

    Raises:
        ComparisonError: if the rows are judged by unlike dev sets.
    """
    (a, first), (b, second) = rows.items()
    if first.dev.identity != second.dev.identity:
        raise ComparisonError(
            f"{a} and {b} are judged by other dev sets: {_dev(first)} and {_dev(second)}; narrow "
            "it down by --identity, or run one of them with the dev sets of the other"
        )
    task, notes = f"dev {first.dev.search}", list[str]()
    compared = [_contender(name, row, task, pairs_of, notes) for name, row in rows.items()]
    return judged(
        rows,
        (compared[0], compared[1]),
        tasks=[task],
        average=None,
        seeds={name: row.seeds for name, row in rows.items()},
        notes=notes,
        progress=progress,
    )


def _contender(
    name: str, row: LeaderboardRow, task: str, pairs_of: PairsOf, notes: list[str]
) -> Contender:
    scores = {task: [row.dev_score.values[seed] for seed in row.seeds]}
    try:
        found = [_checked(row, seed, pairs_of(row.keys[seed])) for seed in row.seeds]
    except CseError as problem:
        notes.append(f"{name} is compared over its seeds only: {problem}")
        return Contender(name, scores)
    cosines: NDArray[Any] = np.stack([one.cosines for one in found])
    return Contender(name, scores, {task: cosines}, {task: found[0].gold})


def _checked(row: LeaderboardRow, seed: int, pairs: DevPairs) -> DevPairs:
    recorded, found = row.dev_score.values[seed], spearman(pairs.cosines, pairs.gold)
    if not abs(found - recorded) <= SAME_SCORE:
        raise ComparisonError(
            f"the kept model of trial {row.keys[seed][:16]} scores {found:.4f} on dev "
            f"{row.dev.search} here, and {recorded:.4f} is on record"
        )
    return pairs


def _dev(row: LeaderboardRow) -> str:
    return f"{row.dev.search} ({row.dev.source}, identity {row.dev.identity[:8]})"
