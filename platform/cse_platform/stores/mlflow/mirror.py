"""Mirrors the journal to MLflow, as runs of one experiment."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cse_platform.errors import StoreError
from cse_platform.stores.mlflow.store import check_uri, open_experiment, store_errors
from cse_platform.tracking.events import Event

if TYPE_CHECKING:
    from cse_platform.stores.mlflow.run_writer import RunWriter


class MLflowMirror:
    """A sink of the journal: a parent run for each sweep, with a nested child run for each trial.

    Nothing is logged twice: before a run is created, it is searched for by an identity tag, and
    metrics carry the journal's times, so that applying entries again changes nothing. The position
    in each journal is a tag of the experiment, so it is deleted together with the runs that it
    refers to.

    The constructor does not connect; the first use imports MLflow (about two seconds) and connects.
    Methods raise StoreError if the store cannot be reached or the experiment was deleted. Not
    thread-safe.
    """

    name = "mlflow"
    can_be_refilled = True
    pause = 2.0  # a short trial ends within that time, and is then written in one batch

    def __init__(self, uri: str, *, experiment: str = "cse", artifacts: Path | None = None) -> None:
        """Name the store: `http(s)://` of a tracking server or a database's URL, else StoreError.

        The experiment is created at first use; in a database it gets `artifacts` as its folder.
        """
        check_uri(uri)
        self._uri = uri
        self._experiment = experiment
        self._artifacts = artifacts
        self._runs: RunWriter | None = None

    def position(self, journal: str) -> int:
        """Return the offset up to which a journal has been applied; 0 for an unknown one."""
        with self._open_runs() as runs:
            return runs.position(journal)

    def apply(self, journal: str, entries: Sequence[tuple[int, Event]]) -> None:
        """Mirror (end offset, event) pairs in their order; applying them again changes nothing.

        After an error, some may have been applied; the position is unchanged.
        """
        if not entries:
            return
        with self._open_runs() as runs:
            for _, event in entries:
                runs.apply(journal, event)
            runs.flush()
            runs.set_position(journal, entries[-1][0])

    @contextmanager
    def _open_runs(self) -> "Iterator[RunWriter]":
        try:
            if self._runs is None:
                opened = open_experiment(self._uri, self._experiment, artifacts=self._artifacts)
                from cse_platform.stores.mlflow.run_writer import RunWriter

                self._runs = RunWriter(*opened)
            with store_errors(self._uri):
                yield self._runs
        except StoreError:
            # Cached runs may be outdated once the store is back, so drop them.
            self._runs = None
            raise
