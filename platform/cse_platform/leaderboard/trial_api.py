"""The questions about trials: the table of a sweep's, and single ones."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cse_platform.leaderboard.query.trials.curves import DevPoint, dev_curve, dev_curves
from cse_platform.leaderboard.query.trials.find import find_trial
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.leaderboard.store.opening import Store

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Similarities
    from cse_platform.leaderboard.query.sweeps.trials_table import (
        SweepHyperparameters,
        TrialChoice,
        TrialLine,
    )
    from cse_platform.leaderboard.query.trials.details_record import TrialDetails
    from cse_platform.leaderboard.query.trials.neighbours import Neighbour


class TrialQueries:
    """The questions about trials; a trial is named by its key or how it begins."""

    _store: Store

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
        from cse_platform.leaderboard.query.sweeps.trials_table import varying_hyperparameters

        with self._store.session() as session:
            return varying_hyperparameters(session, sweep)

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

    def neighbours(self, sweep: str, number: int) -> "tuple[Neighbour | None, Neighbour | None]":
        """The trials of a sweep before and after that number; None at an end.

        Raises:
            NotFoundError: if there is no such sweep.
        """
        from cse_platform.leaderboard.query.trials.neighbours import neighbours

        with self._store.session() as session:
            return neighbours(session, sweep, number)
