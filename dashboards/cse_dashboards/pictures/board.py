"""The leaderboard as a picture."""

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from cse_dashboards.figures.leaderboard import leaderboard
from cse_dashboards.figures.naming import dev_quantity, score_quantity
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.labels import SENTEVAL, data_of, dev_data, picture_per_data
from cse_platform.leaderboard.published.match import source_of
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.row import Estimate, FamilyName, LeaderboardRow, family_of

NAME, TITLE = "leaderboard", "Leaderboard"
_OVER_PAIRS = "over the pairs of a single seed; how other seeds would do is not in them"


def of_rows(
    rows: Sequence[LeaderboardRow],
    published: Sequence[PublishedRow] = (),
    family: FamilyName | None = None,
) -> list[Picture]:
    """Rows that are there already, on their headline, or on dev where no row has a test score.

    Args:
        rows: of a board, with their intervals as far as they are known.
        published: rows of papers; those on test sets with that headline are shown.
        family: of test scores; left out, the first that any row has.

    Returns:
        A picture for each source of the test data; without test scores, for each dev set.
    """
    family = family or family_of(rows)
    column = Board(rows, family=family).headline
    theirs = [row for row in published if row.split == "test" and column in row.scores]
    scored = [row for row in rows if column in row.scores]
    if not scored and not published:
        return _on_dev(rows)
    if not scored and not theirs:
        return [_missing(f"no row and no published one has a score on {column}")]
    without = len(rows) - len(scored)
    left = f" Rows without that score, which are not shown: {without}." if without else ""

    def draw(data: str) -> Picture:
        ours = [row for row in scored if _test_data(row, column) == data]
        return _on_test(ours, theirs if data == SENTEVAL else (), column, left)

    data = [_test_data(row, column) for row in scored]
    return picture_per_data([*data, *([SENTEVAL] if theirs else [])], draw)


def _test_data(row: LeaderboardRow, column: str) -> str:
    return data_of(source_of(row.scores[column], row.dev))


def _on_test(
    rows: Sequence[LeaderboardRow], theirs: Sequence[PublishedRow], column: str, left: str
) -> Picture:
    labelled = _labelled(rows)
    ours = {label: row.scores[column] for label, row in labelled.items()}
    papers = " Hollow: papers' own numbers, on the papers' data." if theirs else ""
    quantity = score_quantity(column)
    figure = leaderboard(ours, quantity, column=column, published=_placed(theirs, rows))
    return _picture(f"{quantity.title}.{_intervals(ours.values())}{papers}{left}", figure)


def _on_dev(rows: Sequence[LeaderboardRow]) -> list[Picture]:
    if not rows:
        why = (
            "no trial is complete among those that the filters let through; "
            "cse-sweep sweeps/quickstart.yaml makes some"
        )
        return [_missing(why)]

    def draw(name: str) -> Picture:
        shown = _labelled([row for row in rows if _dev_set(row) == name])
        quantity = dev_quantity(next(iter(shown.values())).dev.search)
        scores = {label: row.dev_score for label, row in shown.items()}
        why = " No row has test scores: `evaluate:` in a sweep file, or cse-evaluate, makes them."
        caption = f"{quantity.title}.{_intervals(scores.values())}{why}"
        return _picture(caption, leaderboard(scores, quantity))

    return picture_per_data(map(_dev_set, rows), draw)


def _dev_set(row: LeaderboardRow) -> str:
    return f"{row.dev.search} dev, {dev_data(row)}"


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
