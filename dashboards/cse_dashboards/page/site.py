"""What the views share: the open leaderboard, cached results, the request, and how values look."""

import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote
from weakref import WeakValueDictionary

from flask import Blueprint, current_app, g, request

from cse_dashboards.figures.labels import method_style, number, value_text, values_line
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.study import StudiedSearch
from cse_dashboards.page.address import (
    Address,
    BoardAddress,
    CompareAddress,
    GeometryAddress,
    PapersAddress,
    SweepsAddress,
)
from cse_dashboards.page.control import Control
from cse_methods.names import TASKS, backbone_name, hyperparameter_name, method_name, task_name
from cse_methods.published.released import MARK, SCORED_BY
from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.records import SCORE_COLUMNS, LeaderboardRow
from cse_platform.leaderboard.sorting import ORDERS
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.leaderboard.trials_table import Hyperparameters
from cse_platform.numbers import clock, percent
from cse_platform.presentation.tables import Table, TableRow
from cse_platform.secrets import mask_url
from cse_platform.sweep.conditions import SIGNS, Condition, write_value

T = TypeVar("T")
KEPT = 32
"""Number of results that a `Memory` keeps."""


class Memory(Generic[T]):
    """A cache of recent results by question; thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Any, T]] = OrderedDict()
        self._lock = threading.Lock()
        # A lock exists only while a caller computes or waits.
        self._computing: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()
        self._renewing: set[Hashable] = set()
        self._behind = ThreadPoolExecutor(max_workers=1, thread_name_prefix="renew")

    def known(self, question: Hashable, source: Any) -> T | None:
        """Return the cached result if it was computed from an equal `source`, else None."""
        with self._lock:
            kept = self._kept.get(question)
        return kept[1] if kept is not None and kept[0] == source else None

    def ask(self, question: Hashable, source: Any, compute: Callable[[], T]) -> T:
        """Return the result for this question and source, computing it unless it is cached.

        Concurrent callers with the same question wait for the one that computes it.
        """
        if (result := self.known(question, source)) is not None:
            return result
        with self._lock:
            computing = self._computing.setdefault(question, threading.Lock())
        with computing:
            if (result := self.known(question, source)) is not None:
                return result
            return self.keep(question, source, compute())

    def ask_stale(self, question: Hashable, source: Any, compute: Callable[[], T]) -> T:
        """Return the cached result at once, even if it is stale, and refresh it in the background.

        The background computes one result at a time; a later call returns the new result.
        """
        with self._lock:
            kept = self._kept.get(question)
        if kept is None or kept[0] == source:
            return self.ask(question, source, compute)
        with self._lock:
            busy = question in self._renewing
            self._renewing.add(question)
        if not busy:
            self._behind.submit(self._renew_result, question, source, compute)
        return kept[1]

    def keep(self, question: Hashable, source: Any, result: T) -> T:
        """Cache a result. Returns it."""
        with self._lock:
            self._kept[question] = (source, result)
            self._kept.move_to_end(question)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return result

    def _renew_result(self, question: Hashable, source: Any, compute: Callable[[], T]) -> None:
        try:
            self.ask(question, source, compute)
        except Exception:  # the next caller computes it again, and gets the error
            logging.getLogger(__name__).warning("renewing what is shown failed", exc_info=True)
            with self._lock:
                self._kept.pop(question, None)
        finally:
            with self._lock:
                self._renewing.discard(question)


AnyAddress = TypeVar("AnyAddress", bound=Address)
pages = Blueprint("pages", __name__)
"""All routes of the page; each module of `views` adds its own."""
PART = "X-Part"
"""Header of a request for only a part of a page."""


class OpenLeaderboard:
    """A leaderboard that stays open between requests, and is reopened when its file changes."""

    def __init__(self, url: str, published: Sequence[Path]) -> None:
        self.url, self._published = url, published
        self.shown_url = mask_url(url)  # without its password
        self._lock = threading.RLock()
        self._open: tuple[object, Leaderboard] | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the file, usually a runs folder; None for PostgreSQL."""
        return self._file.parent if self.url.startswith("sqlite") else None

    @property
    def _file(self) -> Path:
        return Path(self.url.partition(":///")[2].partition("?")[0])

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
        file = self._file
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
    """Searches of sweeps, valid while their trials stay the same."""
    searches: Memory[tuple[Sequence[Picture], Sequence[str], int]] = field(default_factory=Memory)
    """Figures of these searches, the sentences above them, and the number of trials that had ended
    when they were made.
    """
    hyperparameters: Memory[Hyperparameters] = field(default_factory=Memory)
    """Hyperparameters of sweeps, valid while no trial is added."""
    measured: Memory[list[str]] = field(default_factory=Memory)
    """Names of metrics and test scores of sweeps, valid while the sweep's stamp is the same."""
    counts: Memory[tuple[int, int]] = field(default_factory=Memory)
    """Numbers of trials and ended trials of sweeps, valid while the sweep's stamp is the same."""
    pictures: Memory[Picture] = field(default_factory=Memory)
    """Figures of embeddings."""
    encoding: threading.Lock = field(default_factory=threading.Lock)
    """Held by the one request that may have a model in memory."""


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
    if "overviews" not in g:
        g.overviews = {}
    overviews: dict[str, SweepOverview] = g.overviews
    if sweep not in overviews:
        overviews[sweep] = reader().sweep(sweep)
    return overviews[sweep]


def end_reading(_error: BaseException | None) -> None:
    """End the transaction of a request."""
    if "reading" in g:
        g.reading.close()


def admitted() -> Control | None:
    """Return the access control if the request may change something, else None."""
    control = site().control
    return control if control is not None and control.admits(request) else None


def frame() -> str:
    """Return the template around a view: a whole page, or nothing around a part."""
    return "bare.html" if PART in request.headers else "page.html"


NAVIGATION = {
    "Leaderboard": BoardAddress(),
    "Sweeps": SweepsAddress(),
    "Compare": CompareAddress(),
    "Geometry": GeometryAddress(),
    "Papers": PapersAddress(),
}
_WORD = re.compile(r"(?<![\w-])[a-z0-9]+(_[a-z0-9]+)*(?![\w-])")
_LEADS = {"trial": "/trials/{}", "sweep": "/sweeps/{}"}
"""Links of cells, by the head of their column."""
_EARLY = ("trial", "trials", "GPU-hours", "wall time a trial", "finished")
"""Columns of a board that `arrange_columns` moves forward."""


def moment(when: datetime | None) -> str:
    """Format a time to the minute."""
    return "" if when is None else f"{when:%Y-%m-%d %H:%M} UTC"


def arrange_columns(table: Table) -> Table:
    """Move the columns of general interest before the scores by task."""
    names = [head.name for head in table.heads]
    early = [names.index(name) for name in _EARLY if name in names]
    if "n" not in names:
        return table
    order = [index for index in range(len(names)) if index not in early]
    ranking = names.index("n") + 1
    tasks = (at for at in order[ranking:] if table.heads[at].sort in SCORE_COLUMNS)
    before = order.index(next(tasks, ranking))
    order[before:before] = early
    groups = (tuple(tuple(row[at] for at in order) for row in group) for group in table.groups)
    return replace(table, heads=tuple(table.heads[at] for at in order), groups=tuple(groups))


def direction(column: str) -> str:
    """Return the sort direction of a column as an ARIA value."""
    return "descending" if ORDERS[column].descending else "ascending"


def leads_to(head: str, text: str) -> str | None:
    """Return the link of a cell with this text under this head, or None."""
    return _LEADS[head].format(quote(text, safe="")) if head in _LEADS and text else None


def reference(heads: list[str], row: TableRow) -> str | None:
    """Return METHOD@CONFIGURATION of one of our rows, or None if it has no configuration."""
    cells = {head: cell.text for head, cell in zip(heads, row, strict=True)}
    configuration = cells.get("configuration")
    shown = cells["method"]
    method = SCORED_BY if MARK in shown else shown.partition(" (")[0]
    return f"{method}@{configuration}" if configuration else None


def head_name(head: str) -> str:
    """Format a column head with task names as in papers: `dev STS-B (built-in)`."""
    task = head.replace(" ", "_")
    if task in TASKS:
        return TASKS[task]
    return task_words(head).replace("(builtin)", "(built-in)")


def task_words(text: str) -> str:
    """Replace the tasks in a text by their names in papers."""
    return _WORD.sub(lambda word: task_name(word[0]), text)


def cell_name(head: str, text: str) -> str:
    """Format a cell under a head, with methods and backbones by their display names."""
    if head == "method":
        name, space, rest = text.partition(" ")
        return method_name(name) + space + rest
    return backbone_name(text) if head == "backbone" else text


def condition_text(condition: Condition) -> str:
    """Format a condition as the table does its values: `learning_rate >= 1e-4`, `kind a or b`."""
    name = hyperparameter_name(condition.name)
    if condition.sign not in SIGNS:
        return f"{name} {' or '.join(map(value_text, condition.values))}"
    return f"{name} {condition.sign} {number(condition.values[0])}"


def first_line(text: str | None) -> str:
    """Return the first line of a trial's error."""
    return (text or "").strip().partition("\n")[0]


FILTERS: dict[str, Callable[..., str]] = {
    "percent": percent,
    "measured": lambda value, of: percent(value) if of.factor == 100 else number(value),
    "clock": clock,
    "moment": moment,
    "one_line": values_line,
    "as_condition": write_value,
    "condition_text": condition_text,
    "first_line": first_line,
    "hyperparameter_name": hyperparameter_name,
    "value_text": value_text,
}
GLOBALS: dict[str, Any] = {
    "backbone_name": backbone_name,
    "cell_name": cell_name,
    "direction": direction,
    "head_name": head_name,
    "leads_to": leads_to,
    "method_colour": lambda method: method_style(method.partition(" ")[0]).colour,
    "method_name": method_name,
    "navigation": NAVIGATION,
    "reference": reference,
    "task_words": task_words,
}
