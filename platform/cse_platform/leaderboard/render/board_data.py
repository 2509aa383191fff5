"""A leaderboard as data: one line a row, one value a cell, fractions; for CSV and pandas alike."""

from collections.abc import Iterator

from cse_platform.leaderboard.published.match import source_of
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.records import Record
from cse_platform.leaderboard.row import FAMILIES, Estimate, LeaderboardRow

TEXT, NUMBER, COUNT, YES_NO = "object", "float64", "Int64", "boolean"
MOMENT = "datetime64[us, UTC]"

NAMED = {
    **{"published": YES_NO, "method": TEXT, "backbone": TEXT, "sweep": TEXT},
    **dict.fromkeys(("configuration", "values", "searched", "corpus", "seeds"), TEXT),
    **{"n": COUNT, "keys": TEXT},
    **dict.fromkeys(("dev_checkpoint", "dev_search", "dev_identity", "dev_source"), TEXT),
    **dict.fromkeys(("dev_mean", "dev_std", "dev_low", "dev_high", "dev_best"), NUMBER),
    **{"dev_untrained": NUMBER, "trials": COUNT},
    **{"headline": TEXT, "evaluation": TEXT, "source": TEXT, "best_of_n": NUMBER},
    **dict.fromkeys(("rank_best", "rank_worst", "rank_among"), COUNT),
    **{"gap": NUMBER, "gap_published": NUMBER, "gap_source": TEXT, "gap_inside": YES_NO},
    **{"test_opened": MOMENT, "gpu_hours": NUMBER, "finished": MOMENT},
    **{"machines": TEXT, "tags": TEXT},
}
"""Columns of every board with what pandas calls their type. `evaluation`, `source` and `best_of_n`
are those of the headline; JSON has those of every score."""
OF_PAPERS = dict.fromkeys(("system", "sources", "settings", "split", "unstated"), TEXT)
"""Columns of a board with published rows."""
OF_A_SCORE = {"": NUMBER, "_n": COUNT, "_std": NUMBER, "_low": NUMBER, "_high": NUMBER}
"""What follows a task's name, from its mean on. Where n is 1, the interval is over pairs."""


def board_columns(board: Board) -> dict[str, str]:
    """The columns of a board, and what pandas calls their type.

    There are columns for every score that a row has in a family which the board or one of our rows
    shows.
    """
    scores = {
        f"{column}{suffix}": kind
        for column in _scored(board)
        for suffix, kind in OF_A_SCORE.items()
    }
    return NAMED | (OF_PAPERS if board.published else {}) | scores


def board_values(board: Board) -> Iterator[Record]:
    """A line a row, ours and then published ones, with None for what is not known."""
    columns = board_columns(board)
    for line in (*map(_ours, board.rows), *map(_theirs, board.published)):
        yield {name: line.get(name) for name in columns}


def _scored(board: Board) -> list[str]:
    ours = {column for row in board.rows for column in row.scores}
    found = ours.union(*(row.scores for row in board.published))
    shown = (
        family
        for family in FAMILIES.values()
        if family.name == board.family or not ours.isdisjoint(family.columns)
    )
    return [column for family in shown for column in family.columns if column in found]


def _ours(row: LeaderboardRow) -> Record:
    dev, rank, gap = row.dev_score, row.rank, row.gap
    ranked = row.ranked_score if row.headline else None
    return {
        "published": False,
        "method": row.method,
        "backbone": row.backbone,
        "sweep": row.sweep,
        "configuration": row.configuration.hash,
        "values": row.configuration.values,
        "searched": row.configuration.searched,
        "corpus": row.corpus,
        "seeds": row.seeds,
        "n": row.n,
        "keys": row.keys,
        "dev_checkpoint": row.dev.checkpoint,
        "dev_search": row.dev.search,
        "dev_identity": row.dev.identity,
        "dev_source": row.dev.source,
        "dev_mean": dev.mean,
        **_spread("dev", dev),
        "dev_best": dev.best,
        "dev_untrained": row.dev_untrained,
        "trials": row.trials,
        "headline": row.headline,
        "evaluation": ranked.identity if ranked else None,
        "source": source_of(ranked, row.dev) if ranked else None,
        "best_of_n": ranked.best if ranked else None,
        "rank_best": rank.best if rank else None,
        "rank_worst": rank.worst if rank else None,
        "rank_among": rank.among if rank else None,
        "gap": gap.difference if gap else None,
        "gap_published": gap.published if gap else None,
        "gap_source": gap.source if gap else None,
        "gap_inside": gap.inside if gap else None,
        "test_opened": row.test_opened,
        "gpu_hours": row.gpu_hours,
        "finished": row.finished,
        "machines": row.machines,
        "tags": row.tags,
        "split": "test",
        **{column: score.mean for column, score in row.scores.items()},
        **{f"{column}_n": score.n for column, score in row.scores.items()},
        **{
            name: value
            for column, score in row.scores.items()
            for name, value in _spread(column, score).items()
        },
    }


def _spread(column: str, score: Estimate) -> dict[str, float | None]:
    low, high = (score.interval.low, score.interval.high) if score.interval else (None, None)
    return {f"{column}_std": score.std, f"{column}_low": low, f"{column}_high": high}


def _theirs(row: PublishedRow) -> Record:
    return {
        "published": True,
        "method": row.method,
        "backbone": row.backbone,
        "n": row.seeds,
        "system": row.system,
        "sources": list(row.sources),
        "settings": row.label,
        "split": row.split,
        "unstated": list(row.unstated),
        **row.scores,
        **{f"{column}_std": std for column, std in row.std.items()},
    }
