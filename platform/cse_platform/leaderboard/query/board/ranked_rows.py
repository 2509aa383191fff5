"""Rank intervals, and the intervals of single seeds over pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy.orm import Session

from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard.query.board.paired_scores import contenders, group_by_identity
from cse_platform.leaderboard.row import BoardFamily, Estimate, LeaderboardRow
from cse_platform.leaderboard.statistics.contenders import Sampled, sample
from cse_platform.leaderboard.statistics.intervals import pairs_interval
from cse_platform.leaderboard.statistics.ranks import Ranked, joint_ranks
from cse_platform.leaderboard.statistics.resampling import Floats
from cse_platform.leaderboard.statistics.results import RankInterval

_RESAMPLES = 2000
_SEED = 0

Progress = Callable[[int, int], None]
"""Called with how many correlations were computed since the last call, and with their total."""


def with_rank_intervals(
    session: Session,
    rows: Sequence[LeaderboardRow],
    family: BoardFamily,
    *,
    progress: Progress | None = None,
) -> list[LeaderboardRow]:
    """The same rows with their headline, their rank and the intervals of single seeds."""
    headline, made = headline_of(rows, family), with_headline(rows, family)
    sampled: list[Sampled | None] = [None] * len(made)
    for places in group_by_identity(made).values():
        group = [made[place] for place in places]
        drawn = _sampled(session, group, family, headline, progress)
        ranks = _ranks(group, drawn)
        for place, one, rank in zip(places, drawn, ranks, strict=True):
            sampled[place], made[place] = one, replace(made[place], rank=rank)
    return [
        replace(row, scores=_with_intervals(session, row, one))
        for row, one in zip(made, sampled, strict=True)
    ]


def with_headline(rows: Sequence[LeaderboardRow], family: BoardFamily) -> list[LeaderboardRow]:
    """The same rows with the column that their rank and gap are of."""
    headline = headline_of(rows, family)
    return [replace(row, headline=headline) for row in rows]


def headline_of(rows: Sequence[LeaderboardRow], family: BoardFamily) -> str | None:
    """The column that a board is about: the family's average, or else its first task that any row
    has; None for dev."""
    order = (*family.averages, *family.columns)
    return next((column for column in order if any(column in row.scores for row in rows)), None)


def _sampled(
    session: Session,
    rows: Sequence[LeaderboardRow],
    family: BoardFamily,
    headline: str | None,
    progress: Progress | None,
) -> list[Sampled | None]:
    """Draws over pairs of what the headline is made of; None for rows that lack some of it."""
    if headline is None:
        return [None] * len(rows)
    tasks = family.over(headline) if headline in family.averages else (headline,)
    whole = {str(n): row for n, row in enumerate(rows) if _scored_alike(row, tasks, headline)}
    compared = contenders(session, whole, tasks, scored_on=[headline])
    paired = [one for one in compared if one.cosines.keys() == set(tasks)]
    total = _RESAMPLES * sum(one.seeds for one in paired) * len(tasks)
    step = None if progress is None else lambda done: progress(done, total)
    drawn = sample(paired, tasks, resamples=_RESAMPLES, seed=_SEED, progress=step)
    by_name = {one.contender.name: one for one in drawn}
    return [by_name.get(str(n)) for n in range(len(rows))]


def _scored_alike(row: LeaderboardRow, tasks: Sequence[str], headline: str) -> bool:
    """Whether every seed of the headline has every task."""
    seeds = row.scores[headline].values.keys()
    return all(task in row.scores and seeds <= row.scores[task].values.keys() for task in tasks)


def _ranks(
    rows: Sequence[LeaderboardRow], sampled: Sequence[Sampled | None]
) -> list[RankInterval | None]:
    ranked = [
        Ranked(
            values=list(score.values.values()),
            pairs=None if one is None else np.mean(list(one.over_pairs.values()), axis=0),
        )
        for row, one in zip(rows, sampled, strict=True)
        if (score := row.ranked_score) is not None
    ]
    return joint_ranks(ranked, resamples=_RESAMPLES, seed=_SEED)


def _with_intervals(
    session: Session, row: LeaderboardRow, sampled: Sampled | None
) -> dict[str, Estimate]:
    """Intervals over pairs for what has one seed and cosines."""
    draws = {} if sampled is None else dict(sampled.over_pairs)
    if sampled is not None and row.headline is not None:
        draws[row.headline] = np.mean(list(sampled.over_pairs.values()), axis=0)
    single = [column for column, score in row.scores.items() if score.n == 1]
    for column in single:
        if column not in draws and column in STS_TASKS:
            draws |= _draws_of_one(session, row, column)
    return {
        column: replace(score, interval=pairs_interval(draws[column]))
        if column in single and column in draws
        else score
        for column, score in row.scores.items()
    }


def _draws_of_one(session: Session, row: LeaderboardRow, task: str) -> Mapping[str, Floats]:
    [one] = contenders(session, {"": row}, [task])
    if task not in one.cosines:
        return {}
    return sample([one], [task], resamples=_RESAMPLES, seed=_SEED)[0].over_pairs
