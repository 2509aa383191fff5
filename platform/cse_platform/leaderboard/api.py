"""The queries of a leaderboard, for scripts, notebooks and the commands."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cse_platform.errors import ComparisonError
from cse_platform.leaderboard.annotations import annotations
from cse_platform.leaderboard.board import MAIN_FAMILIES, board_rows
from cse_platform.leaderboard.filters import EVERY_ROW, Filters
from cse_platform.leaderboard.records import (
    BOARD_FAMILIES,
    FamilyName,
    LeaderboardRow,
    families_beside,
    family_named,
    family_of,
)
from cse_platform.leaderboard.references import ReferenceQueries, find_row, named_rows
from cse_platform.leaderboard.searches import SearchQueries
from cse_platform.leaderboard.sweeps import SweepQueries
from cse_platform.leaderboard.trial_details import TrialQueries
from cse_platform.leaderboard.trials_table import TrialsTableQueries
from cse_platform.stores.sql.store import Store, open_for_reading
from cse_platform.urls import expand_url, sqlite_url

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

    from cse_platform.leaderboard.annotations import Annotations
    from cse_platform.leaderboard.comparisons import PairsOf
    from cse_platform.leaderboard.published.audit import Audit
    from cse_platform.leaderboard.published.paper_files import PaperProgress
    from cse_platform.leaderboard.published.papers import PaperTable
    from cse_platform.leaderboard.published.rows import PublishedRow
    from cse_platform.leaderboard.ranking import Progress
    from cse_platform.leaderboard.statistics.results import Comparison, Matrix
    from cse_platform.tracking.events import Annotatable


def _name_pair(named: Sequence[tuple[str, LeaderboardRow]]) -> dict[str, LeaderboardRow]:
    """Map the two rows to their names; equal names get a letter."""
    if named[0][0] != named[1][0]:
        return dict(named)
    return {f"{name} ({side})": row for side, (name, row) in zip("AB", named, strict=True)}


class Leaderboard(ReferenceQueries, TrialQueries, TrialsTableQueries, SearchQueries, SweepQueries):
    """An open leaderboard to query; a context manager. Scores are fractions.

    Args:
        store: the open store.
        published: a lab's own files of published numbers, in addition to those of the package.
    """

    def __init__(self, store: Store, *, published: Sequence[Path] = ()) -> None:
        self._store = store
        self._published_files = tuple(published)

    def rows(
        self,
        filters: Filters | None = None,
        *,
        tasks: FamilyName | None = None,
        per_configuration: bool = False,
        limit: int | None = None,
        ranked: bool = True,
        sort: str = "dev",
        progress: "Progress | None" = None,
    ) -> list[LeaderboardRow]:
        """A row per method, backbone and evaluation identity, with intervals, ranks and gaps.

        For each group, the best average of the weights of several seeds gets an additional row.

        Args:
            filters: which trials and rows the board is built from.
            tasks: the family of test scores; by default, rows have the scores of all main families,
                and the first family that any row has scores of gives the headline.
            per_configuration: return a row for every configuration with a complete trial.
            limit: maximum number of rows; those with the highest dev means are returned.
            ranked: compute ranks and intervals over pairs by resampling; without them, even a board
                of many rows is fast.
            sort: the column to sort by; see `sort_rows`.
            progress: called with the progress of the resampling.

        Raises:
            NotFoundError: for an unknown column.
            StoreError: if the database fails.
            PublishedError: if a file of published numbers is invalid.
        """
        from cse_platform.leaderboard.ranking import rank_rows
        from cse_platform.leaderboard.render.columns import sort_rows

        with self._store.session() as session:
            families = MAIN_FAMILIES if tasks is None else families_beside(tasks)
            rows = board_rows(
                session,
                filters,
                families=families,
                per_configuration=per_configuration,
                averages=True,
                limit=limit,
            )
            family = family_named(tasks or family_of(rows), rows)
            published = self.published(ablations=True)
            rows = rank_rows(session, rows, family, published, resampled=ranked, progress=progress)
        return sort_rows(rows, sort)

    def frame(
        self,
        filters: Filters | None = None,
        *,
        tasks: FamilyName | None = None,
        per_configuration: bool = False,
        sort: str = "dev",
    ) -> "pd.DataFrame":
        """The rows as a pandas frame, in the columns of `--format csv`.

        Columns of numbers, counts, booleans and times (UTC) keep their type even if values are
        missing; objects and lists stay Python objects.

        Raises:
            NotFoundError: for an unknown column.
            StoreError: if the database fails.
        """
        from cse_platform.leaderboard.render.board import Board
        from cse_platform.leaderboard.render.columns import data_columns, data_rows
        from cse_platform.render.table import to_frame

        rows = self.rows(filters, tasks=tasks, per_configuration=per_configuration, sort=sort)
        board = Board(rows, family=tasks or family_of(rows))
        return to_frame(data_columns(board), data_rows(board))

    def published(
        self,
        *,
        backbone: str | None = None,
        method: str | None = None,
        tables: Sequence[str] = (),
        ablations: bool = False,
    ) -> "list[PublishedRow]":
        """The papers' own numbers and those of the lab's files; repeated rows are merged.

        Args:
            backbone: only rows of this encoder.
            method: only rows of this method.
            tables: only rows of these tables, each PAPER:TABLE, e.g. `rankcse:2`.
            ablations: include the papers' ablation tables; `tables` can name these in any case.

        Raises:
            PublishedError: if a file is invalid, or a table does not exist.
        """
        from cse_platform.leaderboard.published.rows import merge_repeated_rows, published_rows

        rows = published_rows(
            backbone=backbone,
            method=method,
            files=self._published_files,
            tables=tables,
            ablations=ablations,
        )
        return merge_repeated_rows(rows)

    def paper_table(self, paper: str, table: str, filters: Filters | None = None) -> "PaperTable":
        """Our numbers in the rows and columns of a paper's table, beside the paper's own.

        Raises:
            PublishedError: if there is no such table.
            StoreError: if the database fails.
        """
        from cse_platform.leaderboard.published.papers import matches_any_row, paper_table
        from cse_platform.leaderboard.published.rows import published_rows, rows_of_table

        printed = rows_of_table(paper, table, published_rows(files=self._published_files))
        with self._store.session() as session:
            ours = board_rows(
                session,
                filters,
                families=tuple(BOARD_FAMILIES),
                per_configuration=True,
                among=partial(matches_any_row, printed),
            )
        return paper_table(paper, table, ours, files=self._published_files)

    def audit(self, paper: str | None = None) -> "Audit":
        """Each claim of the papers' tables, with the noise that it must exceed.

        Args:
            paper: only the tables of this paper.

        Raises:
            PublishedError: if there is no such paper, or a file of published numbers is invalid.
            StoreError: if the database fails.
        """
        from cse_platform.leaderboard.published.audit import audit_claims

        scored = attrgetter("is_scored")
        families: tuple[FamilyName, ...] = ("sts", "transfer", "clean")
        with self._store.session() as session:
            ours = board_rows(session, per_configuration=True, among=scored, families=families)
        return audit_claims(paper, ours, files=self._published_files)

    def papers(self) -> "list[PaperProgress]":
        """Each table and figure of the papers: its sweep file, and how far our trials fill it.

        Raises:
            PublishedError: if a file of published numbers is invalid, or the papers' sweep files
                are missing.
            SweepFileError: if one of the sweep files is invalid.
            StoreError: if the database fails.
        """
        from cse_platform.leaderboard.published.paper_files import (
            paper_progress,
            read_paper_files,
            setups_of_papers,
        )
        from cse_platform.leaderboard.published.rows import published_rows

        printed, sweeps = published_rows(files=self._published_files), read_paper_files()
        with self._store.session() as session:
            ours = board_rows(
                session,
                families=tuple(BOARD_FAMILIES),
                per_configuration=True,
                among=setups_of_papers(printed, sweeps),
            )
        return paper_progress(printed, sweeps, ours)

    def compare(
        self,
        a: str | tuple[str, LeaderboardRow],
        b: str | tuple[str, LeaderboardRow],
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName = "sts",
        progress: "Progress | None" = None,
    ) -> "Comparison":
        """Compare A with B: how much better it is, and how sure that is.

        Args:
            a: METHOD, METHOD@CONFIGURATION or the beginning of a trial's key; or a name and its
                row, as `row` returns them.
            b: the same.
            filters: narrow down the rows that these can name.
            tasks: the family of test scores.
            progress: called with the progress of the resampling.

        Raises:
            QueryError: if one of them does not name exactly one row, or they cannot be compared.
        """
        from cse_platform.leaderboard.comparisons import compare_rows

        with self._store.session() as session:
            rows = [
                find_row(session, each, filters, family=tasks) if isinstance(each, str) else each
                for each in (a, b)
            ]
            return compare_rows(session, _name_pair(rows), family=tasks, progress=progress)

    def compare_on_dev(
        self,
        a: str,
        b: str,
        pairs_of: "PairsOf",
        filters: Filters = EVERY_ROW,
        *,
        progress: "Progress | None" = None,
    ) -> "Comparison":
        """Compare A with B on the dev set that both searches climb; opens no test set.

        Args:
            a: METHOD, METHOD@CONFIGURATION or the beginning of a trial's key.
            b: the same.
            pairs_of: returns the dev pairs with the cosines of a trial's kept model, by the trial's
                key; `cse_platform.export` has one.
            filters: narrow down the rows that A and B can name.
            progress: called with the progress of the resampling.

        Raises:
            QueryError: if one of them does not name exactly one row, or they cannot be compared.
        """
        from cse_platform.leaderboard.comparisons import compare_dev_rows

        with self._store.session() as session:
            rows = [find_row(session, name, filters, family=None, scored=False) for name in (a, b)]
        return compare_dev_rows(_name_pair(rows), pairs_of, progress=progress)

    def compare_all(
        self,
        filters: Filters | None = None,
        *,
        tasks: FamilyName = "sts",
        per_configuration: bool = False,
        progress: "Progress | None" = None,
    ) -> "Matrix":
        """Compare every row with test scores with every other.

        Args:
            filters: which rows.
            tasks: the family of test scores.
            per_configuration: compare all configurations, not only the best of each group.
            progress: called with the progress of the resampling.

        Raises:
            ComparisonError: if there are fewer than two comparable rows.
        """
        from cse_platform.leaderboard.comparisons import compare_all_rows

        with self._store.session() as session:
            rows = board_rows(
                session,
                filters,
                families=families_beside(tasks),
                per_configuration=per_configuration,
            )
            named = named_rows([row for row in rows if row.scores])
            return compare_all_rows(session, named, family=tasks, progress=progress)

    def against(
        self,
        rows: Sequence[LeaderboardRow],
        reference: str,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName = "sts",
    ) -> "dict[int, Comparison]":
        """Compare each row with one reference row. Returns comparisons by the row's index in
        `rows`.

        The reference row itself and rows that cannot be compared with it are left out.

        Args:
            rows: rows of a board; those without test scores are left out.
            reference: METHOD, METHOD@CONFIGURATION or the beginning of a trial's key.
            filters: narrow down the rows that the reference can name.
            tasks: the family of test scores.

        Raises:
            QueryError: if the reference does not name exactly one row.
        """
        from cse_platform.leaderboard.comparisons import compare_rows

        comparisons = {}
        with self._store.session() as session:
            name, other = find_row(session, reference, filters, family=tasks)
            for index, row in enumerate(rows):
                if row.configuration != other.configuration and row.scores:
                    with suppress(ComparisonError):  # scored on other data: it gets no mark
                        pair = {f"row {index}": row, name: other}
                        comparisons[index] = compare_rows(session, pair, family=tasks)
        return comparisons

    def annotations(
        self, about: "Annotatable", names: "Collection[str]"
    ) -> "dict[str, Annotations]":
        """The notes, tags and stars of these names; names without any are absent.

        Args:
            about: `trial`, `configuration` or `sweep`.
            names: keys of trials, hashes of configurations, or names of sweeps.
        """
        with self._store.session() as session:
            return annotations(session, about, names)

    def sharing(self) -> AbstractContextManager[None]:
        """Let the queries of this thread share one transaction, until the context ends.

        They then see the store at one moment, and read what several of them need only once.
        """
        return self._store.sharing()

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_leaderboard(
    where: str | Path | None = None, *, published: Sequence[Path] = ()
) -> Leaderboard:
    """Open a leaderboard for queries.

    Args:
        where: a runs folder of cse-sweep, a SQLite file, or a URL (`sqlite:///FILE`,
            `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`); default: `CSE_STORE`, else `runs`.
        published: a lab's own files of published numbers.

    Raises:
        StoreError: if there is none, or it cannot be opened.
    """
    named = where if where is not None else os.environ.get("CSE_STORE") or "runs"
    place = expand_url(str(named))
    file = Path(place) if Path(place).is_file() else Path(place) / "leaderboard.db"
    url = place if "://" in place else sqlite_url(file)
    return Leaderboard(open_for_reading(url), published=published)
