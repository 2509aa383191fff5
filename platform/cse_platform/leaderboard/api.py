"""The queries of a leaderboard, for scripts, notebooks and the commands."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cse_platform.databases import expand_url, sqlite_url
from cse_platform.leaderboard import comparisons, sweeps, trial_details, trials_table
from cse_platform.leaderboard.board import MAIN_FAMILIES, annotations, board_rows
from cse_platform.leaderboard.comparisons import PairsOf, find_row
from cse_platform.leaderboard.filters import refuse_unknown_names
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
    DevPoint,
    FamilyName,
    Filters,
    LeaderboardRow,
    Trial,
    families_beside,
    family_named,
    family_of,
)
from cse_platform.leaderboard.sorting import sort_rows
from cse_platform.leaderboard.statistics.compare import Comparison, Matrix
from cse_platform.leaderboard.statistics.intervals import Progress
from cse_platform.leaderboard.sweeps import SearchHistory, SweepOverview
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.leaderboard.trials import best_of_sweep, dev_curves
from cse_platform.leaderboard.trials_table import EVERY, Hyperparameters, TrialChoice
from cse_platform.stores.sql.store import Store, open_for_reading
from cse_platform.stores.sql.tables import find_sweep
from cse_platform.sweep.conditions import Condition
from cse_platform.tracking.events import Annotatable, DriverMessage

if TYPE_CHECKING:
    import pandas as pd

    from cse_methods.evaluation.results import Similarities
    from cse_platform.leaderboard.audit import Claim
    from cse_platform.leaderboard.papers import PaperProgress, PaperTable


class Leaderboard:
    """An open leaderboard to query; a context manager. Scores are fractions.

    Every question raises StoreError if the database fails. Those about published numbers raise
    PublishedError if one of the files is invalid, or has no such paper or table. Those about a
    sweep raise NotFoundError if there is none of that name, and those with filters if these name no
    known method, backbone or sweep.

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
        if not rows:
            self.check(filters)
        return sort_rows(rows, sort)

    def check(self, filters: Filters) -> None:
        """Refuse filters that name no known method, backbone or sweep: NotFoundError."""
        refuse_unknown_names(filters, self.catalogue(), self.published(ablations=True))

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
            self.rows(filters, tasks=tasks, per_configuration=per_configuration, sort=sort)
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

    def row(
        self,
        reference: str,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName | None = "sts",
        scored: bool = False,
    ) -> tuple[str, LeaderboardRow]:
        """Find the one row that a reference names, and a name for it.

        Without a family `tasks`, it has no test scores, and covers all evaluations; `scored`
        refuses a row that has none. Raises NotFoundError if there is no such row, AmbiguousError if
        there are several.
        """
        with self._store.session() as session:
            return find_row(session, reference, filters, tasks=tasks, scored=scored)

    def candidates(
        self, reference: str, filters: Filters = EVERY_ROW, *, tasks: FamilyName | None = "sts"
    ) -> tuple[str, list[LeaderboardRow]]:
        """Find all rows that a reference can mean, and a name for them.

        Rows without test scores are dropped if others have some. Raises NotFoundError if there is
        no such method, configuration or trial, AmbiguousError if several keys start with it.
        """
        with self._store.session() as session:
            return comparisons.find_candidates(session, reference, filters, tasks=tasks)

    def catalogue(self) -> dict[str, list[str]]:
        """The values that filters take: the known methods, backbones, sweeps, tags and hardware."""
        with self._store.session() as session:
            return comparisons.read_catalogue(session)

    def compare(
        self,
        a: str | tuple[str, LeaderboardRow],
        b: str | tuple[str, LeaderboardRow],
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName = "sts",
        progress: Progress | None = None,
    ) -> Comparison:
        """Compare A with B: how much better it is, and how sure that is.

        Each is a name, or a name and its row, as `row` returns them. Raises QueryError if a name
        does not mean exactly one row, or the two cannot be compared.
        """
        with self._store.session() as session:
            find = partial(find_row, session, filters=filters, tasks=tasks, scored=True)
            rows = [find(row) if isinstance(row, str) else row for row in (a, b)]
            return comparisons.compare_rows(
                session, comparisons.name_pair(rows), family=tasks, progress=progress
            )

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
        key; `cse_platform.export` has one. If it has none for a row, or a kept model does not score
        as its trial did, the intervals are over seeds only, and `limits` says why. Raises
        QueryError as `compare` does.
        """
        with self._store.session() as session:
            rows = [find_row(session, name, filters, tasks=None) for name in (a, b)]
        return comparisons.compare_dev_rows(
            comparisons.name_pair(rows), pairs_of, progress=progress
        )

    def compare_all(
        self,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName = "sts",
        per_configuration: bool = False,
        progress: Progress | None = None,
    ) -> Matrix:
        """Compare every row with test scores with every other, on the mean over their tasks.

        A row is left out, and `limits` names it, if it lacks the family's average and others have
        it, or if it cannot be compared with the first of the others. Of ranking tasks, only those
        of the first metric are compared. With `per_configuration`, all configurations are compared
        and not only the best of each group. Raises ComparisonError without two such rows.
        """
        with self._store.session() as session:
            return comparisons.compare_every_row(
                session,
                filters,
                tasks=tasks,
                per_configuration=per_configuration,
                progress=progress,
            )

    def against(
        self,
        rows: Sequence[LeaderboardRow],
        reference: str,
        filters: Filters = EVERY_ROW,
        *,
        tasks: FamilyName = "sts",
    ) -> dict[int, Comparison]:
        """Compare each row with one reference row. Returns comparisons by the index in `rows`.

        The reference row itself, rows without test scores, and those that cannot be compared with
        it are left out.
        """
        with self._store.session() as session:
            return comparisons.compare_against(session, rows, reference, filters, tasks=tasks)

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

    def sweeps(self, *, limit: int | None = None, offset: int = 0) -> list[SweepOverview]:
        """The progress of sweeps, the last started one first; `offset` of them are skipped."""
        with self._store.session() as session:
            return sweeps.read_sweeps(session, limit=limit, offset=offset)

    def count_sweeps(self) -> int:
        """Count the sweeps."""
        with self._store.session() as session:
            return sweeps.count_sweeps(session)

    def sweep(self, name: str, *, now: datetime | None = None) -> SweepOverview:
        """The progress of a sweep; `now` is the time for which a running one is described."""
        with self._store.session() as session:
            return sweeps.read_sweep(session, find_sweep(session, name).id, now=now)

    def sweep_spec(self, sweep: str) -> dict[str, Any]:
        """The sweep file as it was last started, as JSON."""
        with self._store.session() as session:
            return find_sweep(session, sweep).spec

    def running(self, sweep: str, *, curves: bool = False) -> list[Trial]:
        """The trials of a sweep that have not ended, the newest first, at most 50.

        They have the best so far, and the step and the dev score of their last report, None before
        the first; with `curves`, also their dev curves.
        """
        with self._store.session() as session:
            return sweeps.read_running(session, find_sweep(session, sweep), curves=curves)

    def running_and_ended(self, sweep: str, *, since: datetime | None = None) -> list[Trial]:
        """The running trials of a sweep, and those that ended since a time, or all, by number.

        They have the best so far, their last points, and whether they chose their configurations.
        A reused trial ended when the sweep reused it.
        """
        with self._store.session() as session:
            return sweeps.read_running_and_ended(session, find_sweep(session, sweep), since=since)

    def messages(self, sweep: str, *, since: datetime | None = None) -> list[DriverMessage]:
        """The messages of the driver of a sweep, notes and warnings since a time, oldest first."""
        with self._store.session() as session:
            return sweeps.read_messages(session, find_sweep(session, sweep), since=since)

    def stamps(self, sweep: str | None = None) -> dict[str, tuple[str, int]]:
        """Stamps of all sweeps, or of one, by name; a stamp changes when its sweep changes.

        They are the state, as in `SweepOverview`, and how far the journal has been applied.
        """
        with self._store.session() as session:
            return sweeps.read_stamps(session, sweep)

    def search(
        self, sweep: str, *, limit: int = 1000, where: Sequence[Condition] = ()
    ) -> SearchHistory:
        """The history of a sweep: its trials, further seeds included, and their results.

        Args:
            sweep: its name.
            limit: of trials, at least 2; of more, half of the result are the best ones on dev, and
                the rest is an even sample of the others. The result has the total number of trials.
            where: only trials that satisfy these conditions, on hyperparameters that there are.
        """
        with self._store.session() as session:
            return sweeps.read_search(session, find_sweep(session, sweep), limit, where)

    def trial(self, trial: str) -> TrialDetails:
        """Everything about one trial: settings, provenance, dev curve, scores, its other seeds.

        Raises NotFoundError if the reference names no trial, AmbiguousError if it names several.
        """
        with self._store.session() as session:
            return trial_details.read_trial(session, trial)

    def neighbours(self, sweep: str, number: int) -> tuple[Trial | None, Trial | None]:
        """The trials of a sweep before and after a number; None where there is no such trial."""
        with self._store.session() as session:
            return trial_details.read_neighbours(session, find_sweep(session, sweep), number)

    def best_of_sweep(self, sweep: str) -> Trial | None:
        """The complete trial with the highest dev score, if any."""
        with self._store.session() as session:
            return best_of_sweep(session, find_sweep(session, sweep))

    def dev_curves(self, row: LeaderboardRow) -> dict[int, list[DevPoint]]:
        """The dev curves of a row by seed, in the order of its seeds, also those without points."""
        with self._store.session() as session:
            curves = dev_curves(session, list(row.keys.values()))
        return {seed: curves[row.keys[seed]] for seed in row.seeds}

    def similarities(self, trial: str, task: str, identity: str | None = None) -> "Similarities":
        """The cosines that a trial gives to the pairs of an STS task, and their gold scores.

        `identity` is that of the evaluation; by default the only one on the task's test pairs.
        Raises NotFoundError if there is none, AmbiguousError if several evaluations are meant.
        """
        with self._store.session() as session:
            return trial_details.read_similarities(session, trial, task, identity)

    def table_trials(
        self, sweep: str, choice: TrialChoice = EVERY, *, limit: int | None = None, offset: int = 0
    ) -> Iterator[Trial]:
        """Iterate over the trials of a sweep, of every state, in the chosen order.

        They have the best so far, and why they failed or were stopped. Raises NotFoundError if the
        sweep has no such hyperparameter.
        """
        with self._store.session() as session:
            record = find_sweep(session, sweep)
            yield from trials_table.iterate_trials(session, record, choice, limit, offset)

    def count_trials(self, sweep: str, choice: TrialChoice) -> int:
        """Count the trials of a sweep that pass the choice."""
        with self._store.session() as session:
            return trials_table.count_trials(session, find_sweep(session, sweep), choice)

    def hyperparameters(self, sweep: str) -> Hyperparameters:
        """Which hyperparameters vary among the trials of a sweep, and the values of the others.

        Only searched hyperparameters are examined, because trials cannot differ in others.
        """
        with self._store.session() as session:
            return trials_table.read_hyperparameters(session, find_sweep(session, sweep))

    def measured(self, sweep: str) -> list[str]:
        """The names of the metrics that trials of a sweep logged, and of their test scores.

        Metrics are those of the dev points of the newest trials.
        """
        with self._store.session() as session:
            return trials_table.read_measured(session, find_sweep(session, sweep))

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
    location: str | Path | None = None, *, published: Sequence[Path | str] = ()
) -> Leaderboard:
    """Open a leaderboard for queries.

    Args:
        location: a runs folder of cse-sweep, a SQLite file, or a URL (`sqlite:///FILE`,
            `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`); default: `CSE_STORE`, else `runs`.
        published: a lab's own files of published numbers.

    Raises StoreError if there is none, or it cannot be opened.
    """
    named = location if location is not None else os.environ.get("CSE_STORE") or "runs"
    url = expand_url(str(named))
    if "://" not in url:
        url = sqlite_url(Path(url) if Path(url).is_file() else Path(url) / "leaderboard.db")
    return Leaderboard(open_for_reading(url), published=published)
