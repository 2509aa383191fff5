"""Keep a sweep's run in MLflow up to date by running `cse-dashboard publish`."""

import logging
import os
import shutil
import subprocess
import sysconfig
import threading

from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.journal import Journal

PUBLISH_SECONDS = 300.0
"""Seconds between two publications while a sweep runs."""
LONGEST_SECONDS = 600.0
"""Timeout in seconds of a publication while a sweep runs."""
END_SECONDS = 120.0
"""Timeout in seconds of the last publication."""
INTERRUPTED_SECONDS = 15.0
"""Timeout in seconds of the last publication after a Ctrl-C."""
NICENESS = 10
"""Niceness of publications: above a user's own commands, below the 15 of Ray's workers."""

_log = logging.getLogger(__name__)


class Publisher:
    """Runs `cse-dashboard publish SWEEP` every few minutes, and once at the end.

    Each run is a separate process, on which the sweep does not depend: if the command fails, takes
    too long or is not installed, that costs one warning. While the journal does not grow, nothing
    is published. The last run continues in the background until `wait`.

    `command`, or else the variable `CSE_DASHBOARD`, replaces the `cse-dashboard` beside this
    Python; an empty one turns publishing off.
    """

    def __init__(self, sweep: str, stores: SweepStores, *, command: str | None = None) -> None:
        self._sweep, self._stores = sweep, stores
        here = shutil.which("cse-dashboard", path=sysconfig.get_path("scripts"))
        named = os.environ.get("CSE_DASHBOARD", here or "cse-dashboard")
        self._command = named if command is None else command
        self._process: subprocess.Popen[str] | None = None
        self._starting, self._ending = threading.Lock(), threading.Event()
        self._warned = False
        self._thread = threading.Thread()

    def start(self, journal: Journal) -> None:
        """Publish the journal every few minutes, in a background thread."""

        def publish() -> None:
            published = -1
            while not self._ending.wait(PUBLISH_SECONDS):
                if (end := journal.end) != published and self._publish_once(LONGEST_SECONDS):
                    published = end

        if self._command:
            self._thread = threading.Thread(target=publish, name="publisher", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop publishing, and kill a publication in progress."""
        with self._starting:
            self._ending.set()
            if self._process is not None:
                self._process.kill()
        self.wait()

    def finish(self, journal: Journal, *, complete: bool) -> None:
        """Publish once more, unless this state of the journal was published as complete before."""
        self.stop()
        end, published = str(journal.end), self._stores.folder / "published"
        if not self._command or (published.is_file() and published.read_text() == end):
            return

        def publish() -> None:
            done = self._publish_once(END_SECONDS if complete else INTERRUPTED_SECONDS, last=True)
            if done and complete:
                published.write_text(end)

        self._thread = threading.Thread(target=publish, name="last publication", daemon=True)
        self._thread.start()

    @property
    def at_work(self) -> bool:
        """Whether a publication is in progress, for which `wait` would wait."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the last publication, which has a timeout."""
        if self.at_work:
            self._thread.join()

    def _publish_once(self, seconds: float, *, last: bool = False) -> bool:
        try:
            problem = self._run_command(seconds, last=last)
        except subprocess.TimeoutExpired:
            problem = f"it takes longer than {seconds:g} s"
        except OSError as error:
            problem = str(error)
        if problem and not self._warned and (last or not self._ending.is_set()):
            says = "%r is not up to date in MLflow: %s; `cse-dashboard publish` does it by hand"
            _log.warning(says, self._sweep, problem)
        self._warned = bool(problem)
        return not problem

    def _run_command(self, seconds: float, *, last: bool) -> str:
        """Run the command. Returns the last line of its standard error if it failed, else ""."""
        # In the environment: everyone can see the arguments, and a URL can hold a password.
        stores = {"CSE_STORE": self._stores.leaderboard, "CSE_MLFLOW_URI": self._stores.mlflow}
        with self._starting:
            if self._ending.is_set() and not last:
                return "the sweep has ended"
            self._process = process = subprocess.Popen(
                [self._command, "publish", self._sweep],
                env=os.environ | stores,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # a Ctrl-C reaches the sweep alone
            )
        with process:
            try:
                os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
                _, output = process.communicate(timeout=seconds)
            finally:
                process.kill()
        lines = output.strip().splitlines() or ["it failed"]
        return lines[-1].removeprefix("Error: ") if process.returncode else ""
