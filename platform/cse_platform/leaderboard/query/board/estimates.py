"""Scores over seeds."""

import math
from collections.abc import Mapping
from dataclasses import replace

from cse_platform.leaderboard.row import Estimate, LeaderboardRow
from cse_platform.leaderboard.statistics.intervals import seed_interval


def estimate(values: Mapping[int, float], identity: str, source: str) -> Estimate:
    """One score over seeds, with Student's interval where there are several."""
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


def single_seed(row: LeaderboardRow, seed: int) -> LeaderboardRow:
    """The same row, of one of its seeds."""
    scores = {
        column: estimate({seed: score.values[seed]}, score.identity, score.source)
        for column, score in row.scores.items()
        if seed in score.values
    }
    dev = estimate({seed: row.dev_score.values[seed]}, row.dev.identity, row.dev.source)
    return replace(row, seeds=[seed], keys={seed: row.keys[seed]}, dev_score=dev, scores=scores)
