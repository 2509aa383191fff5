"""The questions about sweeps."""

from typing import TYPE_CHECKING, Any, Self

from cse_platform.leaderboard.query.sweeps.find import find_sweep
from cse_platform.leaderboard.store.opening import Store

if TYPE_CHECKING:
    from collections.abc import Collection

    from cse_platform.leaderboard.query.annotations import Annotations
    from cse_platform.leaderboard.query.sweeps.front import ParetoFront
    from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
    from cse_platform.leaderboard.query.sweeps.search_history import SearchHistory
    from cse_platform.leaderboard.query.sweeps.stamps import SweepStamp
    from cse_platform.leaderboard.query.sweeps.where import Where
    from cse_platform.leaderboard.trial import TrialSummary
    from cse_platform.tracking.events import Annotatable, DriverMessage


class SweepQueries:
    """The questions about sweeps; a context manager that closes the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def sweeps(self, *, limit: int | None = None, offset: int = 0) -> "list[SweepOverview]":
        """How far sweeps are; the one that was started last comes first.

        Args:
            limit: so many of them; left out, all.
            offset: after so many others.
        """
        from cse_platform.leaderboard.query.sweeps.overviews import sweep_overviews

        with self._store.session() as session:
            return sweep_overviews(session, limit=limit, offset=offset)

    def count_sweeps(self) -> int:
        """How many sweeps there are."""
        from cse_platform.leaderboard.query.sweeps.find import count_sweeps

        with self._store.session() as session:
            return count_sweeps(session)

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

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
