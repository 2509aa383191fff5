"""Comparisons of what a person names, with METHOD, METHOD@CONFIGURATION or a trial's key."""

from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy.orm import Session

from cse_platform.errors import ComparisonError
from cse_platform.leaderboard.query.board.comparisons import compare_all_rows, compare_rows
from cse_platform.leaderboard.query.board.filters import Filters
from cse_platform.leaderboard.query.board.rank_intervals import Progress
from cse_platform.leaderboard.query.board.resolve import find_row, named_rows
from cse_platform.leaderboard.query.board.rows import board_rows
from cse_platform.leaderboard.row import FamilyName, LeaderboardRow
from cse_platform.leaderboard.statistics.results import Comparison, Matrix


def compare_two(
    session: Session,
    a: str,
    b: str,
    filters: Filters,
    *,
    family: FamilyName,
    progress: Progress | None,
) -> Comparison:
    """One named row against another; see `Leaderboard.compare`."""
    found = [find_row(session, one, filters, family=family) for one in (a, b)]
    if found[0][0] == found[1][0]:
        found = [(f"{name} ({side})", row) for side, (name, row) in zip("AB", found, strict=True)]
    return compare_rows(session, dict(found), family=family, progress=progress)


def compare_every(
    session: Session,
    filters: Filters | None,
    *,
    family: FamilyName,
    per_configuration: bool,
    progress: Progress | None,
) -> Matrix:
    """Every row with test scores against every other; see `Leaderboard.compare_all`."""
    rows = board_rows(session, filters, families=[family], per_configuration=per_configuration)
    named = named_rows([row for row in rows if row.scores])
    return compare_all_rows(session, named, family=family, progress=progress)


def compare_with_one(
    session: Session,
    rows: Sequence[LeaderboardRow],
    reference: str,
    filters: Filters,
    *,
    family: FamilyName,
) -> dict[int, Comparison]:
    """Each row against the named one, by the row's place; see `Leaderboard.against`."""
    found = {}
    name, other = find_row(session, reference, filters, family=family)
    for place, row in enumerate(rows):
        if row.configuration != other.configuration and row.scores:
            with suppress(ComparisonError):  # scored on other data: it gets no mark
                pair = {f"row {place}": row, name: other}
                found[place] = compare_rows(session, pair, family=family)
    return found
