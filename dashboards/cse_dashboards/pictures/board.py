"""The leaderboard as a picture."""

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from cse_dashboards.figures.leaderboard import leaderboard
from cse_dashboards.figures.naming import Quantity, dev_quantity, score_quantity
from cse_dashboards.picture import Picture
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.row import Estimate, FamilyName, LeaderboardRow, family_of

NAME, TITLE = "leaderboard", "Leaderboard"
_OVER_PAIRS = "over the pairs of a single seed; how other seeds would do is not in them"


def of_rows(
    rows: Sequence[LeaderboardRow],
    published: Sequence[PublishedRow] = (),
    family: FamilyName | None = None,
) -> Picture:
    """Rows that are there already, on their headline, or on dev where no row has a test score.

    Args:
        rows: of a board, with their intervals as far as they are known.
        published: rows of papers; those on test sets with that headline are shown.
        family: of test scores; left out, the first that any row has.
    """
    family = family or family_of(rows)
    column = Board(rows, family=family).headline
    if not any(column in row.scores for row in rows) and not published:
        return _on_dev(rows)
    ours = {
        label: row.scores[column] for label, row in _labelled(rows).items() if column in row.scores
    }
    theirs = [row for row in published if row.split == "test" and column in row.scores]
    if not ours and not theirs:
        return _missing(f"no row and no published one has a score on {column}")
    without = len(rows) - len(ours)
    left = f" Rows without that score, which are not shown: {without}." if without else ""
    papers = " Hollow: papers' own numbers, on the papers' data." if theirs else ""
    quantity = score_quantity(column)
    figure = leaderboard(ours, quantity, column=column, published=_placed(theirs, rows))
    return _picture(f"{quantity.title}.{_intervals(ours.values())}{papers}{left}", figure)


def _on_dev(rows: Sequence[LeaderboardRow]) -> Picture:
    if not rows:
        return _missing(
            "no trial is complete among those that the filters let through; "
            "cse-sweep sweeps/quickstart.yaml makes some"
        )
    sets = sorted({row.dev.search for row in rows})
    quantity = (
        dev_quantity(sets[0]) if len(sets) == 1 else Quantity("dev, each on its own × 100", 100.0)
    )
    scores = {label: row.dev_score for label, row in _labelled(rows).items()}
    why = " No row has test scores: `evaluate:` in a sweep file, or cse-evaluate, makes them."
    return _picture(
        f"{quantity.title}.{_intervals(scores.values())}{why}", leaderboard(scores, quantity)
    )


def _labelled(rows: Sequence[LeaderboardRow]) -> dict[str, LeaderboardRow]:
    """By method and backbone, with as much more as it takes to tell them apart."""
    for name in (_plain, lambda row: f"{_plain(row)} @{row.configuration.hash[:8]}"):
        named = {name(row): row for row in rows}
        if len(named) == len(rows):
            return named
    return {f"{name(row)} ({n})": row for n, row in enumerate(rows, start=1)}


def _plain(row: LeaderboardRow) -> str:
    return f"{row.method} {row.backbone}"


def _placed(
    published: Sequence[PublishedRow], rows: Sequence[LeaderboardRow]
) -> list[tuple[str, PublishedRow]]:
    """Each on the line of our first row of its method and backbone, or on one of its own."""
    lines: dict[tuple[str, str], str] = {}
    for label, row in _labelled(rows).items():
        lines.setdefault((row.method, row.backbone), label)
    return [
        (lines.get((row.method, row.backbone), f"{row.system} {row.backbone}"), row)
        for row in published
    ]


def _intervals(scores: Iterable[Estimate]) -> str:
    known = [one.interval.over for one in scores if one.interval]
    said = " Means with 95 % intervals (Student's t over seeds)." if "seeds" in known else ""
    return f"{said} Diamonds: intervals {_OVER_PAIRS}." if "pairs" in known else said


def _picture(caption: str, figure: go.Figure) -> Picture:
    return Picture(NAME, TITLE, caption, figure)


def _missing(why: str) -> Picture:
    return Picture(NAME, TITLE, "The mean score of each row, with its interval.", missing=why)
