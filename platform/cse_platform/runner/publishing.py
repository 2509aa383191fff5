"""Put the report of a sweep into its run in MLflow, by `cse-dashboard publish`, when it ends."""

import logging
import os
import shutil
import subprocess
import sysconfig
import threading

from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.journal import Journal

END_SECONDS = 600.0
"""Timeout in seconds of the publication at a sweep's end."""
INTERRUPTED_SECONDS = 15.0
"""Timeout in seconds of the publication after a Ctrl-C."""
NICENESS = 10
"""Niceness of a publication: above a user's own commands, below the 15 of Ray's workers."""

_log = logging.getLogger(__name__)


class Publisher:
    """Runs `cse-dashboard publish SWEEP` in the background once a sweep has ended.

    It is a separate process, on which the sweep does not depend: if the command fails, takes too
    long or is not installed, that costs one warning.

    `command`, or else the variable `CSE_DASHBOARD`, replaces the `cse-dashboard` beside this
    Python; an empty one turns publishing off.
    """

    def __init__(self, sweep: str, stores: SweepStores, *, command: str | None = None) -> None:
        self._sweep, self._stores = sweep, stores
        here = shutil.which("cse-dashboard", path=sysconfig.get_path("scripts"))
        named = os.environ.get("CSE_DASHBOARD", here or "cse-dashboard")
        self._command = named if command is None else command
        self._thread = threading.Thread()

    def publish(self, journal: Journal, *, complete: bool) -> None:
        """Start to publish, unless this state of the journal was published as complete before."""
        end, published = str(journal.end), self._stores.folder / "published"
        if not self._command or (published.is_file() and published.read_text() == end):
            return

        def run() -> None:
            seconds = END_SECONDS if complete else INTERRUPTED_SECONDS
            try:
                problem = self._run_command(seconds)
            except subprocess.TimeoutExpired:
                problem = f"it took longer than {seconds:g} s"
            except OSError as error:
                problem = str(error)
            if problem:
                says = "%r is not up to date in MLflow: %s; `cse-dashboard publish %s` updates it"
                _log.warning(says, self._sweep, problem, self._sweep)
            elif complete:
                published.write_text(end)

        self._thread = threading.Thread(target=run, name="publisher", daemon=True)
        self._thread.start()

    @property
    def at_work(self) -> bool:
        """Whether a publication is in progress, for which `wait` would wait."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the publication, which has a timeout."""
        if self.at_work:
            self._thread.join()

    def _run_command(self, seconds: float) -> str:
        """Run the command. Returns the last line of its standard error if it failed, else ""."""
        # In the environment: everyone can see the arguments, and a URL can hold a password.
        stores = {"CSE_STORE": self._stores.leaderboard, "CSE_MLFLOW_URI": self._stores.mlflow}
        with subprocess.Popen(
            [self._command, "publish", self._sweep],
            env=os.environ | stores,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C reaches the sweep alone
        ) as process:
            try:
                os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
                _, output = process.communicate(timeout=seconds)
            finally:
                process.kill()
        lines = output.strip().splitlines() or ["it failed"]
        return lines[-1].removeprefix("Error: ") if process.returncode else ""
