"""The queries of a leaderboard, for scripts, notebooks and the commands."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial, wraps
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from cse_methods.data.dev_selection import ByWidth, scores_by_width
from cse_methods.errors import nearest_names
from cse_platform.databases import expand_url, sqlite_url
from cse_platform.errors import NoStoreError, NotFoundError
from cse_platform.leaderboard.board import MAIN_FAMILIES, board_rows, read_annotations
from cse_platform.leaderboard.comparisons import (
    PairsOf,
    compare_against,
    compare_dev_rows,
    compare_every_row,
    compare_named,
)
from cse_platform.leaderboard.families import (
    BOARD_FAMILIES,
    OWN,
    FamilyName,
    families_beside,
    family_named,
    family_of,
)
from cse_platform.leaderboard.filters import EVERY_ROW, Filters
from cse_platform.leaderboard.past_searches import read_search
from cse_platform.leaderboard.published.rows import (
    PublishedRow,
    merge_repeated_rows,
    published_rows,
    rows_of_table,
)
from cse_platform.leaderboard.ranking import ORDERS, rank_rows, sort_rows
from cse_platform.leaderboard.records import ConfigurationSetup, DevPoint, LeaderboardRow, Trial
from cse_platform.leaderboard.row_names import find_candidates, find_row, name_pair
from cse_platform.leaderboard.selection import read_catalogue, refuse_unknown_names
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.leaderboard.statistics.resampling import Progress
from cse_platform.leaderboard.sweeps import (
    count_sweeps,
    read_messages,
    read_running,
    read_running_and_ended,
    read_stamps,
    read_sweep,
    read_sweeps,
    read_version,
)
from cse_platform.leaderboard.trial_details import (
    read_examples,
    read_neighbours,
    read_settings,
    read_trial,
)
from cse_platform.leaderboard.trials import best_of_sweep, dev_curves, find_kept_models
from cse_platform.leaderboard.trials_table import (
    EVERY,
    Hyperparameters,
    TrialChoice,
    count_trials,
    iterate_trials,
    read_hyperparameters,
    read_measured,
)
from cse_platform.secrets import mask_url
from cse_platform.stores.sql.store import Store, open_for_reading
from cse_platform.stores.sql.tables import find_sweep

if TYPE_CHECKING:
    import pandas as pd

    from cse_platform.leaderboard.audit import Claim
    from cse_platform.leaderboard.papers import PaperProgress, PaperTable


_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


def _make_question(
    question: Callable[Concatenate[Any, _Asked], _Answer],
) -> Callable[Concatenate["Leaderboard", _Asked], _Answer]:
    """Make a method of a function of a session, which the method opens after checking filters."""

    @wraps(question)
    def answer(board: "Leaderboard", /, *args: _Asked.args, **kwargs: _Asked.kwargs) -> _Answer:
        for given in (*args, *kwargs.values()):
            if isinstance(given, Filters) and given != EVERY_ROW:
                board.check(given)
        with board._store.session() as session:
            return question(session, *args, **kwargs)

    return answer


class Leaderboard:
    """An open leaderboard to query; a context manager. Scores are fractions.

    Every question raises StoreError if the database fails. Those about published numbers raise
    PublishedError if one of the files is invalid, or has no such paper or table. Those about a
    sweep raise NotFoundError if there is none of that name, and those with filters if these name
    nothing known, and TypeError if they are not `Filters`.

    A row is named by METHOD or SWEEP, which stand for their best configuration on dev, by
    METHOD@CONFIGURATION, or by a trial, of which the row has only the seed. A trial is named by its
    key or its first 6 digits, by SWEEP#N, or as the best one by SWEEP or METHOD@CONFIGURATION.

    Args:
        store: the open store.
        published: a lab's own files of published numbers, in addition to those of the package.
    """

    def __init__(self, store: Store, *, published: Sequence[Path | str] = ()) -> None:
        self._store = store
        self._published_files = tuple(map(Path, published))

    row = _make_question(find_row)
    candidates = _make_question(find_candidates)
    catalogue = _make_question(read_catalogue)
    compare = _make_question(compare_named)
    compare_all = _make_question(compare_every_row)
    against = _make_question(compare_against)
    sweeps = _make_question(read_sweeps)
    count_sweeps = _make_question(count_sweeps)
    sweep = _make_question(read_sweep)
    stamps = _make_question(read_stamps)
    version = _make_question(read_version)
    messages = _make_question(read_messages)
    running = _make_question(read_running)
    running_and_ended = _make_question(read_running_and_ended)
    search = _make_question(read_search)
    trial = _make_question(read_trial)
    neighbours = _make_question(read_neighbours)
    examples = _make_question(read_examples)
    settings = _make_question(read_settings)
    annotations = _make_question(read_annotations)
    kept_models = _make_question(find_kept_models)

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
            limit: maximum number of rows; the best on dev are returned, those that further seeds
                estimate first.
            ranked: compute ranks and intervals over examples by resampling; without them, even a
                board of many rows is fast.
            sort: the column to sort by, by default the headline; see `sort_rows`. An own test set
                becomes the headline.
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
            if family.name == OWN and sort in family.columns:
                family = replace(family, columns=(sort,))
            published = published_rows(files=self._published_files)
            rows = rank_rows(session, rows, family, published, resampled=ranked, progress=progress)
        if not rows:
            self.check(filters)
        try:
            return sort_rows(rows, sort)
        except NotFoundError:
            of_own = [] if tasks == OWN else self.rows(filters, tasks=OWN, ranked=False)
            own = family_named(OWN, of_own).columns
            near = nearest_names(str(sort), [*ORDERS, *own])
            if not set(near) & set(own):
                raise
            raise NotFoundError(
                f"there is no column {sort!r} to sort by; {near[0]!r} is one of --tasks own"
            ) from None

    def check(self, filters: Filters) -> None:
        """Refuse filters that name nothing known; NotFoundError says what is."""
        printed = published_rows(files=self._published_files)
        refuse_unknown_names(filters, self.catalogue(), printed)

    def frame(
        self,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName | None = None,
        per_configuration: bool = False,
        sort: str | None = None,
    ) -> "pd.DataFrame":
        """The rows as a pandas frame; hyperparameters and scores have columns of their own.

        Test scores have the papers' names: `STS12`, …, `SICK-R`, `Avg.`; see `frame_rows`.
        """
        from cse_platform.leaderboard.frames import frame_rows

        return frame_rows(
            self.rows(filters, tasks=tasks, per_configuration=per_configuration, sort=sort),
            averaged=tasks is None,
        )

    def trials(self, filters: Filters = EVERY_ROW) -> "pd.DataFrame":
        """A pandas frame with a line for each trial, of any state; see `frame_trials`.

        Hyperparameters and test scores have columns of their own.
        """
        from cse_platform.leaderboard.frames import frame_trials

        with self._store.session() as session:
            frame = frame_trials(session, filters)
        if frame.empty:
            self.check(filters)
        return frame

    def curves(self, filters: Filters = EVERY_ROW) -> "pd.DataFrame":
        """A pandas frame with a line for each point of the trials' dev curves; see `frame_curves`.

        It has the trial's key, the step, and a column for each metric.
        """
        from cse_platform.leaderboard.frames import frame_curves

        with self._store.session() as session:
            frame = frame_curves(session, filters)
        if frame.empty:
            self.check(filters)
        return frame

    def compare_on_dev(
        self,
        a: str,
        b: str,
        pairs_of: PairsOf,
        filters: Filters = EVERY_ROW,
        *,
        progress: Progress | None = None,
    ) -> Comparison:
        """Compare A with B on the dev set that both searches climb; opens no test set.

        `pairs_of` returns the dev pairs with the cosines of a trial's kept model, by the trial's
        key: `lambda key: dev_pairs(board.trial(key))`. If it has none for a row, or a kept model
        does not score as its trial did, the intervals are over seeds only, and `limits` says why.
        Raises QueryError as `compare` does.
        """
        rows = [self.row(name, filters, tasks=None) for name in (a, b)]
        return compare_dev_rows(name_pair(rows), pairs_of, progress=progress)

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
        from cse_platform.leaderboard.published.matching import matches_any_row

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

    def sweep_spec(self, sweep: str) -> dict[str, Any]:
        """The sweep file as it was last started, as JSON."""
        with self._store.session() as session:
            return find_sweep(session, sweep).spec

    def best_of_sweep(self, sweep: str) -> Trial | None:
        """The complete trial with the highest dev score, if any."""
        with self._store.session() as session:
            return best_of_sweep(session, find_sweep(session, sweep))

    def dev_curves(self, row: LeaderboardRow) -> dict[int, list[DevPoint]]:
        """The dev curves of a row by seed, in the order of its seeds, also those without points."""
        with self._store.session() as session:
            curves = dev_curves(session, list(row.keys.values()))
        return {seed: curves[row.keys[seed]] for seed in row.seeds}

    def by_width(self, rows: Sequence[LeaderboardRow]) -> list[ByWidth]:
        """The dev scores of each row by width: means over its seeds, at the kept checkpoints."""
        with self._store.session() as session:
            curves = dev_curves(session, [key for row in rows for key in row.keys.values()])
        by_row = []
        for row in rows:
            kept = [p.metrics for seed in row.seeds for p in curves[row.keys[seed]] if p.kept]
            values = dict[str, list[float]]()
            for name, value in (item for metrics in kept for item in metrics.items()):
                if value is not None:
                    values.setdefault(name, []).append(value)
            by_row.append(scores_by_width({name: fmean(each) for name, each in values.items()}))
        return by_row

    def table_trials(
        self, sweep: str, choice: TrialChoice = EVERY, *, limit: int | None = None, offset: int = 0
    ) -> Iterator[Trial]:
        """Iterate over the trials of a sweep, of every state, in the chosen order.

        They have the best so far, and why they failed or were stopped. Raises NotFoundError if the
        sweep has no such hyperparameter.
        """
        with self._store.session() as session:
            record = find_sweep(session, sweep)
            yield from iterate_trials(session, record, choice, limit, offset)

    def count_trials(self, sweep: str, choice: TrialChoice) -> int:
        """Count the trials of a sweep that pass the choice."""
        with self._store.session() as session:
            return count_trials(session, find_sweep(session, sweep), choice)

    def hyperparameters(self, sweep: str) -> Hyperparameters:
        """Which hyperparameters vary among the trials of a sweep, and the values of the others.

        Only searched hyperparameters are examined, because trials cannot differ in others.
        """
        with self._store.session() as session:
            return read_hyperparameters(session, find_sweep(session, sweep))

    def measured(self, sweep: str) -> list[str]:
        """The names of the metrics that trials of a sweep logged, and of their test scores.

        Metrics are those of the dev points of the newest trials.
        """
        with self._store.session() as session:
            return read_measured(session, find_sweep(session, sweep))

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
    location: str | Path | None = None, *, published: Sequence[Path | str] = ()
) -> Leaderboard:
    """Open a leaderboard for queries.

    Args:
        location: a runs folder of cse-sweep, a SQLite file, or a URL (`sqlite:///FILE`,
            `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`); default: `CSE_STORE`, else `runs`.
        published: a lab's own files of published numbers.

    Raises StoreError if there is none, or it cannot be opened.
    """
    of_environment = os.environ.get("CSE_STORE")
    named = location if location is not None else of_environment or "runs"
    url = expand_url(str(named))
    if "://" not in url:
        url = sqlite_url(Path(url) if Path(url).is_file() else Path(url) / "leaderboard.db")
    try:
        return Leaderboard(open_for_reading(url), published=published)
    except NoStoreError:
        if location is None or not of_environment or expand_url(of_environment) == url:
            raise
        raise NoStoreError(
            f"no leaderboard at {mask_url(url)}; CSE_STORE names another, which cse-sweep fills "
            "and open_leaderboard() reads"
        ) from None
