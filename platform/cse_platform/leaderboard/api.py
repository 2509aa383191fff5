"""The queries of a leaderboard, for scripts, notebooks and the commands."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from cse_platform.errors import ComparisonError
from cse_platform.leaderboard.board import MAIN_FAMILIES, board_rows
from cse_platform.leaderboard.filters import Catalogue, Filters, catalogue
from cse_platform.leaderboard.records import (
    BOARD_FAMILIES,
    DevPoint,
    FamilyName,
    LeaderboardRow,
    families_beside,
    family_named,
    family_of,
)
from cse_platform.leaderboard.trial_references import find_trial
from cse_platform.leaderboard.trials import dev_curve, dev_curves
from cse_platform.stores.sql.store import Store, open_for_reading
from cse_platform.stores.sql.stored_sweeps import find_sweep
from cse_platform.urls import expand_url, sqlite_url

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

    from cse_methods.evaluation.results import Similarities
    from cse_platform.leaderboard.annotations import Annotations
    from cse_platform.leaderboard.comparisons import PairsOf
    from cse_platform.leaderboard.conditions import Where
    from cse_platform.leaderboard.published.audit import Audit
    from cse_platform.leaderboard.published.paper_files import PaperProgress
    from cse_platform.leaderboard.published.papers import PaperTable
    from cse_platform.leaderboard.published.rows import PublishedRow
    from cse_platform.leaderboard.ranking import Progress
    from cse_platform.leaderboard.records import Trial
    from cse_platform.leaderboard.searches import ParetoFront, SearchHistory
    from cse_platform.leaderboard.statistics.choosing import ChoiceWorth
    from cse_platform.leaderboard.statistics.results import Comparison, Matrix
    from cse_platform.leaderboard.sweeps import SweepOverview, SweepStamp
    from cse_platform.leaderboard.trial_details import TrialDetails
    from cse_platform.leaderboard.trials_table import (
        SweepHyperparameters,
        TrialChoice,
    )
    from cse_platform.tracking.events import Annotatable, DriverMessage


def _name_pair(named: Sequence[tuple[str, LeaderboardRow]]) -> dict[str, LeaderboardRow]:
    """Map the two rows to their names; equal names get a letter."""
    if named[0][0] != named[1][0]:
        return dict(named)
    return {f"{name} ({side})": row for side, (name, row) in zip("AB", named, strict=True)}


Asked = ParamSpec("Asked")
T = TypeVar("T")


class Leaderboard:
    """An open leaderboard to query; a context manager. Scores are fractions.

    Args:
        store: the open store.
        published: a lab's own files of published numbers, in addition to those of the package.
    """

    def __init__(self, store: Store, *, published: Sequence[Path] = ()) -> None:
        self._store = store
        self._published_files = tuple(published)

    def _ask(
        self, question: Callable[Concatenate[Any, Asked], T], *asked: Asked.args, **by: Asked.kwargs
    ) -> T:
        """Call a query function with a session, and return its result."""
        with self._store.session() as session:
            return question(session, *asked, **by)

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

    def row(
        self, reference: str, filters: Filters | None = None, *, tasks: FamilyName = "sts"
    ) -> tuple[str, LeaderboardRow]:
        """Find the one row that a reference names, and a name for it.

        Args:
            reference: METHOD, METHOD@CONFIGURATION or the beginning of a trial's key.
            filters: narrow down the candidates.
            tasks: the family of test scores; rows that have some are preferred.

        Raises:
            QueryError: if the reference does not name exactly one row.
        """
        from cse_platform.leaderboard.references import find_row

        return self._ask(find_row, reference, filters or Filters(), family=tasks, scored=False)

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
        ours = self._ask(
            board_rows, per_configuration=True, among=scored, families=("sts", "transfer", "clean")
        )
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

    def catalogue(self) -> Catalogue:
        """The values that filters take."""
        return self._ask(catalogue)

    def trials(
        self,
        sweep: str,
        choice: "TrialChoice | None" = None,
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> "Iterator[Trial]":
        """Iterate over the trials of a sweep, of every state, in the chosen order.

        Args:
            sweep: its name.
            choice: which trials, and their order; by default all, by number.
            limit: maximum number of trials.
            offset: number of trials to skip.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        from cse_platform.leaderboard.trials_table import TrialChoice, trial_lines

        with self._store.session() as session:
            asked = choice or TrialChoice()
            yield from trial_lines(session, sweep, asked, limit=limit, offset=offset)

    def count_trials(self, sweep: str, choice: "TrialChoice") -> int:
        """Count the trials of a sweep that pass the choice.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        from cse_platform.leaderboard.trials_table import count_trials

        return self._ask(count_trials, sweep, choice)

    def hyperparameters(self, sweep: str) -> "SweepHyperparameters":
        """Which hyperparameters vary among the trials of a sweep, and the values of the others.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.trials_table import varying_hyperparameters

        return self._ask(varying_hyperparameters, sweep)

    def dev_curve(self, trial: str) -> list[DevPoint]:
        """The dev curve of a trial.

        Args:
            trial: its key, or the first 6 or more digits of it.

        Raises:
            QueryError: if it does not name exactly one trial.
        """
        with self._store.session() as session:
            return dev_curve(session, find_trial(session, trial).key)

    def dev_curves(self, row: LeaderboardRow) -> dict[int, list[DevPoint]]:
        """The dev curves of a row by seed, in the order of its seeds; a curve without points is
        empty.
        """
        with self._store.session() as session:
            curves = dev_curves(session, list(row.keys.values()))
        return {seed: curves[row.keys[seed]] for seed in row.seeds}

    def similarities(self, trial: str, task: str) -> "Similarities":
        """The cosines that a trial gives to a task's test pairs, and their gold scores.

        Args:
            trial: its key, or the first 6 or more digits of it.
            task: one of the STS tasks.

        Raises:
            QueryError: if that is not one trial, or it has no or several evaluations of the task.
        """
        from cse_platform.leaderboard.test_scores import similarities

        with self._store.session() as session:
            return similarities(session, find_trial(session, trial).key, task)

    def trial(self, trial: str) -> "TrialDetails":
        """Everything about one trial: settings, provenance, dev curve, scores, its other seeds.

        Args:
            trial: its key, or the first 6 or more digits of it.

        Raises:
            QueryError: if it does not name exactly one trial.
        """
        from cse_platform.leaderboard.trial_details import trial_details

        return self._ask(trial_details, trial)

    def neighbours(self, sweep: str, number: int) -> "tuple[Trial | None, Trial | None]":
        """The trials of a sweep before and after a number; None where there is no such trial.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.trial_references import neighbours

        return self._ask(neighbours, sweep, number)

    def compare(
        self,
        a: str,
        b: str,
        filters: Filters | None = None,
        *,
        tasks: FamilyName = "sts",
        progress: "Progress | None" = None,
    ) -> "Comparison":
        """Compare A with B: how much better it is, and how sure that is.

        Args:
            a: METHOD, METHOD@CONFIGURATION or the beginning of a trial's key.
            b: the same.
            filters: narrow down the rows that these can name.
            tasks: the family of test scores.
            progress: called with the progress of the resampling.

        Raises:
            QueryError: if one of them does not name exactly one row, or they cannot be compared.
        """
        from cse_platform.leaderboard.comparisons import compare_rows
        from cse_platform.leaderboard.references import find_row

        asked = filters or Filters()
        with self._store.session() as session:
            rows = [find_row(session, name, asked, family=tasks) for name in (a, b)]
            return compare_rows(session, _name_pair(rows), family=tasks, progress=progress)

    def candidates(
        self, reference: str, filters: Filters | None = None, *, tasks: FamilyName = "sts"
    ) -> tuple[str, list[LeaderboardRow]]:
        """Find all rows that a reference can mean, and a name for them.

        Args:
            reference: METHOD, METHOD@CONFIGURATION or the beginning of a trial's key.
            filters: narrow down the candidates.
            tasks: the family of test scores; rows without any are dropped if other rows have some.

        Raises:
            QueryError: if it names nothing.
        """
        from cse_platform.leaderboard.references import candidates

        return self._ask(candidates, reference, filters or Filters(), family=tasks)

    def compare_two(
        self, rows: Mapping[str, LeaderboardRow], *, tasks: FamilyName = "sts"
    ) -> "Comparison":
        """Compare the first of two named rows with the second.

        Raises:
            ComparisonError: if they cannot be compared.
        """
        from cse_platform.leaderboard.comparisons import compare_rows

        return self._ask(compare_rows, rows, family=tasks)

    def compare_on_dev(
        self,
        a: str,
        b: str,
        pairs_of: "PairsOf",
        filters: Filters | None = None,
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
        from cse_platform.leaderboard.references import find_row

        asked = filters or Filters()
        with self._store.session() as session:
            rows = [find_row(session, name, asked, family=None, scored=False) for name in (a, b)]
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
        from cse_platform.leaderboard.references import named_rows

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
        filters: Filters | None = None,
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
        from cse_platform.leaderboard.references import find_row

        comparisons = {}
        with self._store.session() as session:
            name, other = find_row(session, reference, filters or Filters(), family=tasks)
            for index, row in enumerate(rows):
                if row.configuration != other.configuration and row.scores:
                    with suppress(ComparisonError):  # scored on other data: it gets no mark
                        pair = {f"row {index}": row, name: other}
                        comparisons[index] = compare_rows(session, pair, family=tasks)
        return comparisons

    def sweeps(self, *, limit: int | None = None, offset: int = 0) -> "list[SweepOverview]":
        """The progress of sweeps; the one that was started last comes first.

        Args:
            limit: maximum number of sweeps; all by default.
            offset: number of sweeps to skip.
        """
        from cse_platform.leaderboard.sweeps import sweep_overviews

        return self._ask(sweep_overviews, limit=limit, offset=offset)

    def count_sweeps(self) -> int:
        """Count the sweeps."""
        from cse_platform.stores.sql.stored_sweeps import count_sweeps

        return self._ask(count_sweeps)

    def sweep(self, name: str) -> "SweepOverview":
        """The progress of a sweep.

        Raises:
            NotFoundError: if there is none of that name.
        """
        from cse_platform.leaderboard.sweeps import sweep_overview

        return self._ask(sweep_overview, name)

    def best_of_sweep(self, sweep: str) -> "Trial | None":
        """The complete trial with the highest dev score among those that satisfy the constraints.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.sweeps import best_of_sweep

        return self._ask(best_of_sweep, sweep)

    def stamps(self, sweep: str | None = None) -> "dict[str, SweepStamp]":
        """Stamps of all sweeps, or of one, by name; a stamp changes when its sweep changes.

        Raises:
            NotFoundError: if there is no sweep of that name.
        """
        from cse_platform.leaderboard.sweeps import sweep_stamps

        return self._ask(sweep_stamps, sweep)

    def running(self, sweep: str) -> "list[Trial]":
        """The trials of a sweep that have not ended, the newest first, at most 50.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.sweeps import running_trials

        return self._ask(running_trials, sweep)

    def messages(self, sweep: str) -> "list[DriverMessage]":
        """Read the messages of the driver of a sweep, notes and warnings, oldest first.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.sweeps import driver_messages

        return self._ask(driver_messages, sweep)

    def search(
        self, sweep: str, *, limit: int = 1000, where: "Where | None" = None
    ) -> "SearchHistory":
        """The history of a sweep: its trials, further seeds included, and their results.

        Args:
            sweep: its name.
            limit: of trials; of more, half of the result are the best ones on dev, and the rest is
                an even sample of the others. The result has the total number of trials.
            where: only trials that satisfy these conditions.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        from cse_platform.leaderboard.searches import search_history

        return self._ask(search_history, sweep, limit=limit, where=where)

    def choice(self, sweep: str) -> "ChoiceWorth | None":
        """What choosing on dev was worth among the evaluated trials of a sweep.

        Only trials with clean scores count. None if fewer than two configurations have such trials.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.choosing import sweep_choice

        return self._ask(sweep_choice, sweep)

    def front(self, sweep: str) -> "ParetoFront":
        """The Pareto front of a search with several objectives, and its other configurations.

        Args:
            sweep: its name.

        Raises:
            NotFoundError: if there is no such sweep.
            QueryError: if its search has only one objective.
        """
        from cse_platform.leaderboard.searches import sweep_front

        return self._ask(sweep_front, sweep)

    def sweep_spec(self, sweep: str) -> dict[str, Any]:
        """The sweep file as it was last started, as JSON.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        with self._store.session() as session:
            return find_sweep(session, sweep).spec

    def annotations(
        self, about: "Annotatable", names: "Collection[str]"
    ) -> "dict[str, Annotations]":
        """The notes, tags and stars of these names; names without any are absent.

        Args:
            about: `trial`, `configuration` or `sweep`.
            names: keys of trials, hashes of configurations, or names of sweeps.
        """
        from cse_platform.leaderboard.annotations import annotations

        return self._ask(annotations, about, names)

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
