"""What the views share: the open leaderboard, the site of a server, and the request."""

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from flask import Blueprint, current_app, g, request

from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.study import StudiedSearch
from cse_dashboards.page.address import Address
from cse_dashboards.page.control import Control
from cse_dashboards.page.memory import Memory
from cse_platform.databases import sqlite_file, sqlite_url
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.leaderboard.trials_table import Hyperparameters
from cse_platform.secrets import mask_url

AnyAddress = TypeVar("AnyAddress", bound=Address)
pages = Blueprint("pages", __name__)
"""All routes of the page; each module of `views` adds its own."""
PART = "X-Part"
"""Header of a request for only a part of a page."""


class OpenLeaderboard:
    """A leaderboard that stays open between requests, and is reopened when its file changes."""

    def __init__(self, url: str, published: Sequence[Path]) -> None:
        self.url, self._published = url, published
        named = sqlite_url(sqlite_file(url).absolute()) if self.folder is not None else url
        self.shown_url = mask_url(named)
        """Its URL for commands in any folder, without its password."""
        self._lock = threading.RLock()
        self._open: tuple[object, Leaderboard] | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the file, usually a runs folder; None for PostgreSQL."""
        return sqlite_file(self.url).parent if self.url.startswith("sqlite") else None

    def get(self) -> Leaderboard:
        """Return the leaderboard, opened at the first call and again when its file has changed.

        A file in a folder that cannot be written to is reopened at every call, because SQLite would
        not see its changes.

        Raises:
            StoreError: if it cannot be opened.
        """
        with self._lock:
            stamp = self._stamp_file()
            if self._open is None or stamp is None or stamp != self._open[0]:
                self.forget()
                opened = open_leaderboard(self.url, published=self._published)
                self._open = self._stamp_file(), opened
            return self._open[1]

    def forget(self) -> None:
        """Reopen the leaderboard at the next request; running requests keep their connections."""
        with self._lock:
            if self._open is not None:
                self._open[1].close()
            self._open = None

    def _stamp_file(self) -> object:
        """Identify the state of the file; None if it must be opened for each request."""
        if not self.url.startswith("sqlite"):
            return self.url
        file = sqlite_file(self.url)
        # SQLite does not see changes of a file that it has opened as immutable.
        if not file.is_file() or not os.access(file.parent, os.W_OK):
            return None
        status = file.stat()
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@dataclass(frozen=True)
class Site:
    """The leaderboard, cached results and settings of one server."""

    opened: OpenLeaderboard
    mlflow: str | None = None
    """URL of the MLflow server that sweeps link to."""
    control: Control | None = None
    """Access control for changes; None if the page is read-only."""
    standings: Memory[list[LeaderboardRow]] = field(default_factory=Memory)
    comparisons: Memory[Comparison] = field(default_factory=Memory)
    marks: Memory[Mapping[int, Comparison]] = field(default_factory=Memory)
    """Comparisons of each row of a board with a reference row, by the row's index."""
    studies: Memory[StudiedSearch] = field(default_factory=Memory)
    """Searches of sweeps, valid while the leaderboard is the same."""
    searches: Memory[tuple[Sequence[Picture], Sequence[str], int]] = field(default_factory=Memory)
    """Figures of these searches, the sentences above them, and the number of trials that had ended
    when they were made.
    """
    hyperparameters: Memory[Hyperparameters] = field(default_factory=Memory)
    """Hyperparameters of sweeps, valid while the leaderboard is the same."""
    measured: Memory[list[str]] = field(default_factory=Memory)
    """Names of metrics and test scores of sweeps, valid while the leaderboard is the same."""
    counts: Memory[tuple[int, int]] = field(default_factory=Memory)
    """Numbers of trials and ended trials of sweeps, valid while the sweep's stamp is the same."""
    pictures: Memory[Picture] = field(default_factory=Memory)
    """Figures of embeddings."""
    encoding: threading.Lock = field(default_factory=threading.Lock)
    """Held by the one request that may have a model in memory."""

    @property
    def mlflow_server(self) -> str:
        """The URL of the MLflow server, without a slash at its end.

        Raises NotFoundError if none is known.
        """
        if self.mlflow is None:
            raise NotFoundError(
                "no MLflow server is known; start cse-dashboard with --mlflow http://…"
            )
        return self.mlflow.rstrip("/")


def site() -> Site:
    """Return the site of the application that answers the request."""
    return cast(Site, current_app.extensions["site"])


def read_address(kind: type[AnyAddress], **path: str) -> AnyAddress:
    """Parse the address of the request, with these parts of its path."""
    return kind.read(request.args.items(multi=True), **path)


def reader() -> Leaderboard:
    """Return the leaderboard; all queries of a request share one transaction.

    Raises StoreError if it cannot be opened.
    """
    if "reader" not in g:
        g.reading = ExitStack()
        g.reader = site().opened.get()
        g.reading.enter_context(g.reader.sharing())
    return cast(Leaderboard, g.reader)


def read_overview(sweep: str) -> SweepOverview:
    """Read the progress of a sweep, once per request.

    Raises:
        NotFoundError: if there is none of that name.
    """
    overviews: dict[str, SweepOverview] = g.setdefault("overviews", {})
    if sweep not in overviews:
        overviews[sweep] = reader().sweep(sweep)
    return overviews[sweep]


def read_version() -> object:
    """Identify the state of the leaderboard; it changes when something is written or rebuilt."""
    return reader(), reader().version()


def end_reading(_error: BaseException | None) -> None:
    """End the transaction of a request."""
    if "reading" in g:
        g.reading.close()


def admitted_control() -> Control | None:
    """Return the access control if the request may change something, else None."""
    control = site().control
    return control if control is not None and control.admits(request) else None


def frame() -> str:
    """Return the template around a view: a whole page, or nothing around a part."""
    return "bare.html" if PART in request.headers else "page.html"
