"""The questions that a leaderboard answers, for scripts and notebooks as for the commands."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cse_platform.leaderboard.comparison_api import ComparisonQueries
from cse_platform.leaderboard.query.board.filters import Catalogue, Filters, catalogue
from cse_platform.leaderboard.query.board.rows import MAIN_FAMILIES, board_rows
from cse_platform.leaderboard.query.board.sorting import sort_rows
from cse_platform.leaderboard.row import (
    BOARD_FAMILIES,
    FamilyName,
    LeaderboardRow,
    family_named,
    family_of,
)
from cse_platform.leaderboard.store.opening import Store
from cse_platform.leaderboard.store.opening import open_store as open_store
from cse_platform.leaderboard.sweep_api import SweepQueries
from cse_platform.leaderboard.trial_api import TrialQueries

if TYPE_CHECKING:
    import pandas as pd

    from cse_platform.leaderboard.published.paper_files import PaperProgress
    from cse_platform.leaderboard.published.paper_tables import PaperTable
    from cse_platform.leaderboard.published.row import PublishedRow
    from cse_platform.leaderboard.query.board.ranked_rows import Progress


class Leaderboard(ComparisonQueries, TrialQueries, SweepQueries):
    """An open leaderboard to ask; a context manager. Scores are fractions.

    Args:
        store: the open store.
        published: a lab's own files of published numbers, beside those of the package.
    """

    def __init__(self, store: Store, *, published: Sequence[Path] = ()) -> None:
        super().__init__(store)
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

        Args:
            filters: what the board is made from.
            tasks: the family of test scores; left out, the rows have all of them, and the headline
                is of the first that any row has.
            per_configuration: a row for every configuration with a complete trial.
            limit: only so many rows, those with the highest dev means.
            ranked: with ranks and intervals over pairs, which take resampling; without, a board
                of many rows is there at once.
            sort: by which column, see `sort_rows`.
            progress: of the resampling.

        Raises:
            NotFoundError: for an unknown column.
            StoreError: for what the database says.
            PublishedError: if a file of published numbers means nothing.
        """
        from cse_platform.leaderboard.published.gaps import gap
        from cse_platform.leaderboard.query.board.ranked_rows import (
            with_headline,
            with_rank_intervals,
        )

        with self._store.session() as session:
            families = MAIN_FAMILIES if tasks is None else (tasks,)
            rows = board_rows(
                session,
                filters,
                families=families,
                per_configuration=per_configuration,
                limit=limit,
            )
            family = family_named(tasks or family_of(rows))
            if ranked:
                rows = with_rank_intervals(session, rows, family, progress=progress)
            else:
                rows = with_headline(rows, family)
        published = self.published(ablations=True)
        return sort_rows([replace(row, gap=gap(row, published)) for row in rows], sort)

    def frame(
        self,
        filters: Filters | None = None,
        *,
        tasks: FamilyName | None = None,
        per_configuration: bool = False,
        sort: str = "dev",
    ) -> "pd.DataFrame":
        """The same as a pandas frame: one line a row, in the columns of `--format csv`.

        Numbers, counts, truths and moments (UTC) have their type, also where some are missing;
        objects and lists are what they are.

        Raises:
            NotFoundError: for an unknown column.
            StoreError: for what the database says.
        """
        from cse_platform.leaderboard.render.board import Board
        from cse_platform.leaderboard.render.board_data import data_columns, data_rows
        from cse_platform.render.serialise import to_frame

        rows = self.rows(filters, tasks=tasks, per_configuration=per_configuration, sort=sort)
        board = Board(rows, family=tasks or family_of(rows))
        return to_frame(data_columns(board), data_rows(board))

    def row(
        self, reference: str, filters: Filters | None = None, *, tasks: FamilyName = "sts"
    ) -> tuple[str, LeaderboardRow]:
        """The one row that is meant, and what to call it.

        Args:
            reference: METHOD, METHOD@CONFIGURATION or how a trial's key begins.
            filters: narrow down what it means.
            tasks: the family of test scores; a row that has some is meant before one without.

        Raises:
            QueryError: if it is not one row.
        """
        from cse_platform.leaderboard.query.board.resolve import find_row

        with self._store.session() as session:
            asked = filters or Filters()
            return find_row(session, reference, asked, family=tasks, scored=False)

    def published(
        self,
        *,
        backbone: str | None = None,
        method: str | None = None,
        tables: Sequence[str] = (),
        ablations: bool = False,
    ) -> "list[PublishedRow]":
        """The papers' own numbers, and those of the lab's files; repeated ones are one row.

        Args:
            backbone: only rows of this encoder.
            method: only rows of this method.
            tables: only rows of these tables, each PAPER:TABLE, e.g. `rankcse:2`.
            ablations: with the papers' tables that turn one switch, of which `tables` may name any.

        Raises:
            PublishedError: if a file means nothing, or there is no such table.
        """
        from cse_platform.leaderboard.published.rows import merged, published_rows

        rows = published_rows(
            backbone=backbone,
            method=method,
            files=self._published_files,
            tables=tables,
            ablations=ablations,
        )
        return merged(rows)

    def paper_table(self, paper: str, table: str, filters: Filters | None = None) -> "PaperTable":
        """Ours in the rows and columns of a paper's table, beside its own figures.

        Raises:
            PublishedError: if there is no such table.
            StoreError: for what the database says.
        """
        from cse_platform.leaderboard.published.paper_tables import can_stand, paper_table
        from cse_platform.leaderboard.published.rows import published_rows, rows_of_table

        printed = rows_of_table(paper, table, published_rows(files=self._published_files))
        with self._store.session() as session:
            ours = board_rows(
                session,
                filters,
                families=tuple(BOARD_FAMILIES),
                per_configuration=True,
                among=partial(can_stand, printed),
            )
        return paper_table(paper, table, ours, files=self._published_files)

    def papers(self) -> "list[PaperProgress]":
        """Each table and figure of the papers: its sweep file, and how far ours fill it.

        Raises:
            PublishedError: if a file of published numbers means nothing, or the papers' sweep files
                are not here.
            SweepFileError: if one of these is no sweep.
            StoreError: for what the database says.
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

    def catalogue(self) -> Catalogue:
        """What there is to filter by."""
        with self._store.session() as session:
            return catalogue(session)


def open_leaderboard(
    where: str | Path | None = None, *, published: Sequence[Path] = ()
) -> Leaderboard:
    """Open a leaderboard to ask it.

    Args:
        where: a folder that a cse-sweep wrote to, a SQLite file, or a URL (`sqlite:///FILE`,
            `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`); left out, `CSE_STORE`, else `runs`.
        published: a lab's own files of published numbers.

    Raises:
        StoreError: if there is none, or it cannot be opened.
    """
    place = str(where if where is not None else os.environ.get("CSE_STORE") or "runs")
    file = Path(place) if Path(place).is_file() else Path(place) / "leaderboard.db"
    url = place if "://" in place else f"sqlite:///{file}"
    return Leaderboard(open_store(url, create=False), published=published)
