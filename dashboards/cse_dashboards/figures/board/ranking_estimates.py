"""KCC and NDCG of rows that were shown for other scores."""

from collections import Counter
from collections.abc import Mapping, Sequence

from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.query.board.estimates import estimate
from cse_platform.leaderboard.query.board.filters import Filters
from cse_platform.leaderboard.row import FAMILIES, Estimate, LeaderboardRow

RANKING = FAMILIES["ranking"].averages

Scores = Mapping[str, Estimate]
"""By column, under one evaluation."""


def ranking_estimates(
    reader: Leaderboard, labelled: Mapping[str, LeaderboardRow]
) -> tuple[dict[str, Scores], str]:
    """The averages of KCC and NDCG over each row's own seeds, and what to add to a caption.

    There is one evaluation of each row, that which most rows have; rows without these scores are
    left out.
    """
    found = {label: _ranking(reader, row) for label, row in labelled.items()}
    return _alike({label: several for label, several in found.items() if several})


def _ranking(reader: Leaderboard, row: LeaderboardRow) -> list[Scores]:
    """The averages of KCC and NDCG over a row's seeds, once for each evaluation of them."""
    same = Filters(backbone=row.backbone, method=row.method, configuration=row.configuration.hash)
    rows = reader.rows(same, tasks="ranking", per_configuration=True, ranked=False)
    found = [
        {name: kept for name in RANKING if (kept := _of_seeds(one.scores.get(name), row.seeds))}
        for one in rows
        if one.dev == row.dev
    ]
    return [scores for scores in found if scores]


def _of_seeds(score: Estimate | None, seeds: Sequence[int]) -> Estimate | None:
    kept = {seed: value for seed, value in score.values.items() if seed in seeds} if score else {}
    return estimate(kept, score.identity, score.source) if score and kept else None


def _alike(found: Mapping[str, Sequence[Scores]]) -> tuple[dict[str, Scores], str]:
    """One evaluation of each, the one that most have, and what to add to a caption."""
    shared = Counter(_identity(one) for several in found.values() for one in several)
    chosen = {
        label: max(several, key=lambda one: shared[_identity(one)])
        for label, several in found.items()
    }
    added = ""
    if many := [label for label, several in found.items() if len(several) > 1]:
        added += f" Evaluated in several ways, one of which is shown: {', '.join(many)}."
    if len({_identity(one) for one in chosen.values()}) > 1:
        added += " Not all were evaluated alike, so that some bars cannot be compared."
    return chosen, added


def _identity(scores: Scores) -> tuple[str, ...]:
    return tuple(score.identity for score in scores.values())
