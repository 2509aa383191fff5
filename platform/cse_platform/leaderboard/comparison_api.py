"""The questions that compare rows. The statistics are loaded when one is asked."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from cse_platform.errors import ComparisonError
from cse_platform.leaderboard.query.board.filters import Filters
from cse_platform.leaderboard.query.board.rows import board_rows
from cse_platform.leaderboard.row import FamilyName, LeaderboardRow
from cse_platform.leaderboard.store.opening import Store

if TYPE_CHECKING:
    from cse_platform.leaderboard.query.board.on_dev import PairsOf
    from cse_platform.leaderboard.query.board.ranked_rows import Progress
    from cse_platform.leaderboard.statistics.results import Comparison, Matrix


class ComparisonQueries:
    """Whether one row is better than another; a row is named as in `cse-leaderboard compare`."""

    _store: Store

    def compare(
        self,
        a: str,
        b: str,
        filters: Filters | None = None,
        *,
        tasks: FamilyName = "sts",
        progress: "Progress | None" = None,
    ) -> "Comparison":
        """Whether A is better than B, and how sure that is.

        Args:
            a: METHOD, METHOD@CONFIGURATION or how a trial's key begins.
            b: the same.
            filters: narrow down what these mean.
            tasks: the family of test scores.
            progress: of the resampling.

        Raises:
            QueryError: if one of them is not one row, or they cannot be compared.
        """
        from cse_platform.leaderboard.query.board.comparisons import compare_rows
        from cse_platform.leaderboard.query.board.resolve import find_row

        asked = filters or Filters()
        with self._store.session() as session:
            found = [find_row(session, one, asked, family=tasks) for one in (a, b)]
            return compare_rows(session, _two_names(found), family=tasks, progress=progress)

    def candidates(
        self, reference: str, filters: Filters | None = None, *, tasks: FamilyName = "sts"
    ) -> tuple[str, list[LeaderboardRow]]:
        """What to call the row that is meant, and all rows that it can be.

        Args:
            reference: METHOD, METHOD@CONFIGURATION or how a trial's key begins.
            filters: narrow down what it means.
            tasks: the family of test scores; rows without are left out where others have some.

        Raises:
            QueryError: if it names nothing.
        """
        from cse_platform.leaderboard.query.board.resolve import candidates

        with self._store.session() as session:
            return candidates(session, reference, filters or Filters(), family=tasks)

    def compare_two(
        self, rows: Mapping[str, LeaderboardRow], *, tasks: FamilyName = "sts"
    ) -> "Comparison":
        """Whether the first of two rows, by name, is better than the second.

        Raises:
            ComparisonError: if they cannot be compared.
        """
        from cse_platform.leaderboard.query.board.comparisons import compare_rows

        with self._store.session() as session:
            return compare_rows(session, rows, family=tasks)

    def compare_on_dev(
        self,
        a: str,
        b: str,
        pairs_of: "PairsOf",
        filters: Filters | None = None,
        *,
        progress: "Progress | None" = None,
    ) -> "Comparison":
        """Whether A is better than B on the dev set that both searches climb; opens no test set.

        Args:
            a: METHOD, METHOD@CONFIGURATION or how a trial's key begins.
            b: the same.
            pairs_of: gives what a trial's kept model says of the pairs; `cse_platform.export` has
                one.
            filters: narrow down what A and B mean.
            progress: of the resampling.

        Raises:
            QueryError: if one of them is not one row, or they cannot be compared.
        """
        from cse_platform.leaderboard.query.board.on_dev import compare_dev_rows
        from cse_platform.leaderboard.query.board.resolve import find_row

        asked = filters or Filters()
        with self._store.session() as session:
            found = [find_row(session, one, asked, family=None, scored=False) for one in (a, b)]
        return compare_dev_rows(_two_names(found), pairs_of, progress=progress)

    def compare_all(
        self,
        filters: Filters | None = None,
        *,
        tasks: FamilyName = "sts",
        per_configuration: bool = False,
        progress: "Progress | None" = None,
    ) -> "Matrix":
        """Every row with test scores against every other.

        Args:
            filters: which rows.
            tasks: the family of test scores.
            per_configuration: every configuration, not the best of each group.
            progress: of the resampling.

        Raises:
            ComparisonError: if there are not two such rows that can be compared.
        """
        from cse_platform.leaderboard.query.board.comparisons import compare_all_rows
        from cse_platform.leaderboard.query.board.resolve import named_rows

        with self._store.session() as session:
            rows = board_rows(
                session, filters, families=[tasks], per_configuration=per_configuration
            )
            named = named_rows([row for row in rows if row.scores])
            return compare_all_rows(session, named, family=tasks, progress=progress)

    def against(
        self,
        rows: Sequence[LeaderboardRow],
        reference: str,
        filters: Filters | None = None,
        *,
        tasks: FamilyName = "sts",
    ) -> "dict[int, Comparison]":
        """Each row against one and the same other, by the row's place.

        That other row is left out, and so are rows that cannot be compared with it.

        Args:
            rows: of a board; those without test scores are left out.
            reference: METHOD, METHOD@CONFIGURATION or how a trial's key begins.
            filters: narrow down what it means.
            tasks: the family of test scores.

        Raises:
            QueryError: if it is not one row.
        """
        from cse_platform.leaderboard.query.board.comparisons import compare_rows
        from cse_platform.leaderboard.query.board.resolve import find_row

        found = {}
        with self._store.session() as session:
            name, other = find_row(session, reference, filters or Filters(), family=tasks)
            for place, row in enumerate(rows):
                if row.configuration != other.configuration and row.scores:
                    with suppress(ComparisonError):  # scored on other data: it gets no mark
                        pair = {f"row {place}": row, name: other}
                        found[place] = compare_rows(session, pair, family=tasks)
        return found


def _two_names(found: Sequence[tuple[str, LeaderboardRow]]) -> dict[str, LeaderboardRow]:
    """Both rows by name; equal names get a letter."""
    if found[0][0] != found[1][0]:
        return dict(found)
    return {f"{name} ({side})": row for side, (name, row) in zip("AB", found, strict=True)}
