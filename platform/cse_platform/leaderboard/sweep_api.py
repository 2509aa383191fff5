"""The questions about sweeps and single trials."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.query.trials.curves import DevPoint, dev_curve, dev_curves
from cse_platform.leaderboard.query.trials.find import find_trial
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.leaderboard.store.opening import Store

if TYPE_CHECKING:
    from collections.abc import Collection

    from cse_methods.evaluation.results import Similarities
    from cse_platform.leaderboard.query.annotations import Annotations
    from cse_platform.leaderboard.query.sweeps.front import ParetoFront
    from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
    from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory
    from cse_platform.leaderboard.query.sweeps.stamps import SweepStamp
    from cse_platform.leaderboard.query.sweeps.trials_table import (
        SweepHyperparameters,
        TrialChoice,
        TrialLine,
    )
    from cse_platform.leaderboard.query.sweeps.where import Where
    from cse_platform.leaderboard.query.trials.details_record import TrialDetails
    from cse_platform.leaderboard.query.trials.neighbours import Neighbour
    from cse_platform.leaderboard.trial import TrialSummary
    from cse_platform.tracking.events import Annotatable, DriverMessage


class SweepQueries:
    """The questions about sweeps and trials; a context manager that closes the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def sweeps(self) -> "list[SweepOverview]":
        """How far each sweep is; the one that was started last comes first."""
        from cse_platform.leaderboard.query.sweeps.overviews import sweep_overviews

        with self._store.session() as session:
            return sweep_overviews(session)

    def sweep(self, name: str) -> "SweepOverview":
        """How far a sweep is.

        Raises:
            NotFoundError: if there is none of that name.
        """
        from cse_platform.leaderboard.query.sweeps.overviews import sweep_overview

        with self._store.session() as session:
            return sweep_overview(session, name)

    def stamps(self, sweep: str | None = None) -> "dict[str, SweepStamp]":
        """What says at a glance whether anything is new, by the names of sweeps: of all, or of one.

        Raises:
            NotFoundError: if there is none of that name.
        """
        from cse_platform.leaderboard.query.sweeps.stamps import sweep_stamps

        with self._store.session() as session:
            return sweep_stamps(session, sweep)

    def running(self, sweep: str) -> "list[TrialSummary]":
        """The trials of a sweep that have not ended, the newest first, at most 50.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.query.sweeps.overviews import running_trials

        with self._store.session() as session:
            return running_trials(session, sweep)

    def messages(self, sweep: str) -> "list[DriverMessage]":
        """What the driver of a sweep has said, notes and warnings, oldest first.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.query.sweeps.news import driver_messages

        with self._store.session() as session:
            return driver_messages(session, find_sweep(session, sweep))

    def search(
        self, sweep: str, *, limit: int = 1000, where: "Where | None" = None
    ) -> "SearchHistory":
        """What a sweep has tried, further seeds included, and what came of it.

        Args:
            sweep: its name.
            limit: of trials; where there are more, half of it are the best ones on dev, and the
                rest is an even sample of the others. The answer says how many there are.
            where: only the trials that pass.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        from cse_platform.leaderboard.query.sweeps.search_history import search_history

        with self._store.session() as session:
            return search_history(session, sweep, limit=limit, where=where)

    def trials(
        self,
        sweep: str,
        choice: "TrialChoice | None" = None,
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> "Iterator[TrialLine]":
        """The trials of a sweep, of every state, in the order that is chosen.

        Args:
            sweep: its name.
            choice: which of them, and their order; left out, all by number.
            limit: so many of them.
            offset: after so many others.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        from cse_platform.leaderboard.query.sweeps.trials_table import TrialChoice, trial_lines

        with self._store.session() as session:
            asked = choice or TrialChoice()
            yield from trial_lines(session, sweep, asked, limit=limit, offset=offset)

    def count_trials(self, sweep: str, choice: "TrialChoice") -> int:
        """How many trials of a sweep pass.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        from cse_platform.leaderboard.query.sweeps.trials_table import count_trials

        with self._store.session() as session:
            return count_trials(session, sweep, choice)

    def hyperparameters(self, sweep: str) -> "SweepHyperparameters":
        """Which hyperparameters vary among the trials of a sweep, and what the others are.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.query.sweeps.trials_table import sweep_hyperparameters

        with self._store.session() as session:
            return sweep_hyperparameters(session, sweep)

    def front(self, sweep: str) -> "ParetoFront":
        """The Pareto front of a search with several objectives, and its other configurations.

        Args:
            sweep: its name.

        Raises:
            NotFoundError: if there is no such sweep.
            QueryError: if its search has one objective alone.
        """
        from cse_platform.leaderboard.query.sweeps.front import sweep_front

        with self._store.session() as session:
            return sweep_front(session, sweep)

    def sweep_spec(self, sweep: str) -> dict[str, Any]:
        """The sweep file as it was last started, as JSON.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        with self._store.session() as session:
            return find_sweep(session, sweep).spec

    def dev_curve(self, trial: str) -> list[DevPoint]:
        """The dev curve of a trial.

        Args:
            trial: its key, or the first 6 or more digits of it.

        Raises:
            QueryError: if that is not one trial.
        """
        with self._store.session() as session:
            return dev_curve(session, find_trial(session, trial).key)

    def dev_curves(self, row: LeaderboardRow) -> dict[int, list[DevPoint]]:
        """The dev curves of a row by seed, in the order of its seeds; empty where there is none."""
        with self._store.session() as session:
            curves = dev_curves(session, list(row.keys.values()))
        return {seed: curves[row.keys[seed]] for seed in row.seeds}

    def similarities(self, trial: str, task: str) -> "Similarities":
        """The cosines that a trial gives to a task's test pairs, and their gold scores.

        Args:
            trial: its key, or the first 6 or more digits of it.
            task: one of the STS tasks.

        Raises:
            QueryError: if that is not one trial, or it has none or several on the task.
        """
        from cse_platform.leaderboard.query.trials.similarities import similarities

        with self._store.session() as session:
            return similarities(session, find_trial(session, trial).key, task)

    def trial(self, trial: str) -> "TrialDetails":
        """Everything about one trial: settings, provenance, dev curve, scores, its other seeds.

        Args:
            trial: its key, or the first 6 or more digits of it.

        Raises:
            QueryError: if that is not one trial.
        """
        from cse_platform.leaderboard.query.trials.details import trial_details

        with self._store.session() as session:
            return trial_details(session, trial)

    def annotations(
        self, about: "Annotatable", names: "Collection[str]"
    ) -> "dict[str, Annotations]":
        """The notes, tags and stars of these, by name; without those that have none.

        Args:
            about: `trial`, `configuration` or `sweep`.
            names: keys of trials, hashes of configurations, or names of sweeps.
        """
        from cse_platform.leaderboard.query.annotations import annotations

        with self._store.session() as session:
            return annotations(session, about, names)

    def neighbours(self, sweep: str, number: int) -> "tuple[Neighbour | None, Neighbour | None]":
        """The trials of a sweep before and after that number; None at an end.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.query.trials.neighbours import neighbours

        with self._store.session() as session:
            return neighbours(session, sweep, number)

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
