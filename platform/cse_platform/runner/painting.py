"""A sweep's run in MLflow, kept up to date while the sweep runs: its description and pictures."""

import logging
import tempfile
import threading
from pathlib import Path

from cse_platform.errors import PaintingError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.ingest.journal_sink import LeaderboardSink
from cse_platform.leaderboard.query.board.selection import Filters
from cse_platform.leaderboard.render.summary import summary
from cse_platform.painters import Painting, painters
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.mlflow.sweep_run import SweepRun, sweep_run
from cse_platform.tracking.recorder import FLUSH_SECONDS, Recorder

PICTURE_SECONDS = 300.0
"""From one set of pictures of a running sweep to the next."""
PAINT_SECONDS = 600.0
"""How long one set may take."""
END_SECONDS = 120.0
"""How long the end of a sweep waits for its pictures."""
INTERRUPTED_SECONDS = 15.0
"""The same after a Ctrl-C."""
RANKED = 10
"""Configurations in the description."""

LEAD = (
    "`report.html` among the artifacts has the figures, `cse-dashboard` serves them live, and "
    "[this view]({view}) compares all trials with their seeds averaged."
)

log = logging.getLogger(__name__)


class SweepPainting:
    """Renews what MLflow shows of a sweep, every few minutes and at its end.

    It works in a thread of its own. Whatever goes wrong there is one line of warning: no sweep
    ends by it, or waits longer than it must.

    Args:
        spec: of the sweep.
        places: its stores.
        journal: by whose end it is known what there is to paint.
        recorder: which brings the journal to the leaderboard.
    """

    def __init__(
        self, spec: SweepSpec, places: SweepStores, journal: Journal, recorder: Recorder
    ) -> None:
        self._spec = spec
        self._places = places
        self._journal = journal
        self._recorder = recorder
        self._at_work: Painting | None = None
        self._shown = ""
        self._warned = False
        self._last: bool | None = None
        """Whether the last set is a whole one; None for no last set."""
        self._ending = threading.Event()
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="pictures", daemon=True)

    def start(self) -> None:
        """Renew every few minutes from here on."""
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; painters at work are ended."""
        at_work = self._at_work  # before the event: after it, this could be the last set's
        self._ending.set()
        if at_work is not None:
            at_work.end()

    def finish(self, *, whole: bool) -> None:
        """Renew once more, with all that the stores hold now; waits for it, and not too long.

        Where all of it is shown already, nothing is done.

        Args:
            whole: each figure alone as well, for a sweep that has come to its end.
        """
        self._last = whole
        self.stop()
        if not self._thread.is_alive():
            self._thread.start()
        seconds = END_SECONDS if whole else INTERRUPTED_SECONDS
        try:
            self._thread.join(seconds)
            if self._thread.is_alive():
                self._warn(f"they take longer than {seconds:g} s; the same command makes them")
        finally:
            self._given_up = True
            self.stop()

    def _run(self) -> None:
        while not self._ending.wait(PICTURE_SECONDS):
            self._try(whole=False, last=False)
        if self._last is not None:
            self._try(whole=self._last, last=True)

    def _try(self, *, whole: bool, last: bool) -> None:
        try:
            self._show(whole)
        except Exception as error:  # whatever it is, the sweep goes on
            if last or not self._ending.is_set():  # else it was cut short, and comes anew
                self._warn(" ".join(str(error).split()) or type(error).__name__)
        else:
            self._warned = False

    def _show(self, whole: bool) -> None:
        now = str(self._journal.end)
        told = self._recorder.flush(FLUSH_SECONDS, only=LeaderboardSink.name)
        if any(sink.behind for sink in told if sink.name == LeaderboardSink.name):
            return  # the recorder says so
        run = sweep_run(
            self._places.mlflow, experiment=self._spec.experiment, sweep=self._spec.sweep
        )
        if run is None or now in (run.painted, None if whole else self._shown):
            return
        there = self._describe(run)
        if there:
            self._paint(run, whole)
        self._shown = now
        if whole:
            run.mark_painted(now)

    def _describe(self, run: SweepRun) -> bool:
        """Renew the description; whether there is anything to paint."""
        with open_leaderboard(self._places.leaderboard) as reader:
            sweep = reader.sweep(self._spec.sweep)
            rows = reader.rows(
                Filters(sweep=self._spec.sweep),
                per_configuration=True,
                limit=RANKED,
                standing=False,
            )
        links = run.links([row.best_trial for row in rows if row.best_trial])
        run.describe(f"{summary(sweep, rows, links=links)}\n{LEAD.format(view=run.view)}")
        return bool(rows)

    def _paint(self, run: SweepRun, whole: bool) -> None:
        if not painters():
            return
        with tempfile.TemporaryDirectory(prefix="cse-pictures-") as name:
            folder = Path(name)
            self._at_work = Painting(
                self._places.leaderboard, self._spec.sweep, folder, whole=whole
            )
            if self._given_up:  # in the meantime: nobody else ends it then
                self._at_work.end()
            problems = self._at_work.wait(PAINT_SECONDS)
            self._at_work = None
            run.add(folder)
        if problems:
            raise PaintingError(problems)

    def _warn(self, why: str) -> None:
        if not self._warned:
            log.warning("MLflow lacks the newest pictures of sweep %r: %s", self._spec.sweep, why)
        self._warned = True
