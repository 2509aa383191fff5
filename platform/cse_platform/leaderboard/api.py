"""The queries of a leaderboard, for scripts, notebooks and the commands."""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cse_platform.databases import expand_url, sqlite_url
from cse_platform.leaderboard.board import MAIN_FAMILIES, annotations, board_rows
from cse_platform.leaderboard.comparisons import ComparisonQueries
from cse_platform.leaderboard.published.rows import (
    PublishedRow,
    merge_repeated_rows,
    published_rows,
    rows_of_table,
)
from cse_platform.leaderboard.ranking import rank_rows
from cse_platform.leaderboard.records import (
    BOARD_FAMILIES,
    EVERY_ROW,
    Annotations,
    ConfigurationSetup,
    FamilyName,
    Filters,
    LeaderboardRow,
    families_beside,
    family_named,
    family_of,
)
from cse_platform.leaderboard.sorting import sort_rows
from cse_platform.leaderboard.statistics.intervals import Progress
from cse_platform.leaderboard.sweeps import SweepQueries
from cse_platform.leaderboard.trial_details import TrialQueries
from cse_platform.leaderboard.trials_table import TrialsTableQueries
from cse_platform.stores.sql.store import Store, open_for_reading
from cse_platform.tracking.events import Annotatable

if TYPE_CHECKING:
    import pandas as pd

    from cse_platform.leaderboard.audit import Claim
    from cse_platform.leaderboard.papers import PaperProgress, PaperTable


class Leaderboard(ComparisonQueries, TrialQueries, TrialsTableQueries, SweepQueries):
    """An open leaderboard to query; a context manager. Scores are fractions.

    Every question raises StoreError if the database fails. Those about published numbers raise
    PublishedError if one of the files is invalid, or has no such paper or table.

    Args:
        store: the open store.
        published: a lab's own files of published numbers, in addition to those of the package.
    """

    def __init__(self, store: Store, *, published: Sequence[Path | str] = ()) -> None:
        self._store = store
        self._published_files = tuple(map(Path, published))

    def rows(
        self,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName | None = None,
        per_configuration: bool = False,
        limit: int | None = None,
        ranked: bool = True,
        sort: str | None = None,
        progress: Progress | None = None,
    ) -> list[LeaderboardRow]:
        """A row per method, backbone and evaluation identity, with intervals, ranks and gaps.

        Args:
            filters: which trials and rows the board is built from.
            tasks: the family of test scores; by default, rows have the scores of all main families,
                and the first family that any row has scores of gives the headline.
            per_configuration: return a row for every configuration with a complete trial.
            limit: maximum number of rows; those with the highest dev means are returned.
            ranked: compute ranks and intervals over pairs by resampling; without them, even a board
                of many rows is fast.
            sort: the column to sort by, by default the headline; see `sort_rows`.
            progress: called with the progress of the resampling.
        """
        with self._store.session() as session:
            families = MAIN_FAMILIES if tasks is None else families_beside(tasks)
            rows = board_rows(
                session,
                filters,
                families=families,
                per_configuration=per_configuration,
                limit=limit,
            )
            family = family_named(tasks or family_of(rows), rows)
            published = self.published(ablations=True)
            rows = rank_rows(session, rows, family, published, resampled=ranked, progress=progress)
        return sort_rows(rows, sort)

    def frame(
        self,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName | None = None,
        per_configuration: bool = False,
        sort: str | None = None,
    ) -> "pd.DataFrame":
        """The rows as a pandas frame, in the columns of `--format csv`.

        Columns of numbers, counts, booleans and times (UTC) keep their type even if values are
        missing; objects and lists stay Python objects.
        """
        from cse_platform.presentation.board import board_frame

        rows = self.rows(filters, tasks=tasks, per_configuration=per_configuration, sort=sort)
        return board_frame(rows, family=tasks or family_of(rows))

    def published(
        self,
        *,
        backbone: str | None = None,
        method: str | None = None,
        tables: Sequence[str] = (),
        ablations: bool = False,
    ) -> list[PublishedRow]:
        """The papers' own numbers and those of the lab's files; repeated rows are merged.

        Args:
            backbone: only rows of this encoder.
            method: only rows of this method.
            tables: only rows of these tables, each PAPER:TABLE, e.g. `rankcse:2`.
            ablations: include the papers' ablation tables; `tables` can name these in any case.
        """
        rows = published_rows(
            backbone=backbone,
            method=method,
            files=self._published_files,
            tables=tables,
            ablations=ablations,
        )
        return merge_repeated_rows(rows)

    def paper_table(self, paper: str, table: str, filters: Filters = EVERY_ROW) -> "PaperTable":
        """Our numbers in the rows and columns of a paper's table, beside the paper's own."""
        from cse_platform.leaderboard.papers import paper_table
        from cse_platform.leaderboard.published.rows import matches_any_row

        printed = rows_of_table(paper, table, published_rows(files=self._published_files))
        among = partial(matches_any_row, printed)
        return paper_table(printed, self._read_configurations(among, filters))

    def audit(self, paper: str | None = None) -> "list[Claim]":
        """Each claim of the papers' tables, or of one's, with the noise that it must exceed."""
        from cse_platform.leaderboard.audit import audit_claims

        ours = self._read_configurations(attrgetter("is_scored"))
        return audit_claims(paper, ours, files=self._published_files)

    def papers(self) -> "list[PaperProgress]":
        """Each table and figure of the papers: its sweep file, and how far our trials fill it.

        Raises PublishedError if the papers' sweep files are missing, SweepFileError if one is
        invalid.
        """
        from cse_platform.leaderboard.papers import (
            paper_progress,
            read_paper_files,
            setups_of_papers,
        )

        printed, sweeps = published_rows(files=self._published_files), read_paper_files()
        ours = self._read_configurations(setups_of_papers(printed, sweeps))
        return paper_progress(printed, sweeps, ours)

    def _read_configurations(
        self, among: Callable[[ConfigurationSetup], bool], filters: Filters = EVERY_ROW
    ) -> list[LeaderboardRow]:
        """Read the rows, with all scores, of every configuration whose setup `among` accepts."""
        families = tuple(BOARD_FAMILIES)
        with self._store.session() as session:
            return board_rows(
                session, filters, families=families, per_configuration=True, among=among
            )

    def annotations(self, about: Annotatable, names: Collection[str]) -> dict[str, Annotations]:
        """The notes, tags and stars of trials, configurations or sweeps, by key, hash or name."""
        with self._store.session() as session:
            return annotations(session, about, names)

    def sharing(self) -> AbstractContextManager[object]:
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
    where: str | Path | None = None, *, published: Sequence[Path | str] = ()
) -> Leaderboard:
    """Open a leaderboard for queries.

    Args:
        where: a runs folder of cse-sweep, a SQLite file, or a URL (`sqlite:///FILE`,
            `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`); default: `CSE_STORE`, else `runs`.
        published: a lab's own files of published numbers.

    Raises StoreError if there is none, or it cannot be opened.
    """
    named = where if where is not None else os.environ.get("CSE_STORE") or "runs"
    location = expand_url(str(named))
    file = Path(location) if Path(location).is_file() else Path(location) / "leaderboard.db"
    url = location if "://" in location else sqlite_url(file)
    return Leaderboard(open_for_reading(url), published=published)
