"""Fills the stores from the journal of recorded runs, in a process of its own: one a journal.

It lives as long as a run does, ends those whose processes have died, and ends when every store has
everything. `record` starts it: python -m cse_platform.stores.recording JOURNAL
"""

import logging
import os
import sys
import time
from pathlib import Path

from cse_platform.databases import expand_url, sqlite_url
from cse_platform.errors import StoreError
from cse_platform.secrets import mask_text
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep.stores import mlflow_uri
from cse_platform.tracking.journal import share_journal
from cse_platform.tracking.record import STORES_LOCK, RecordedRuns, try_lock

INTERVAL_SECONDS = 1.0
"""Time between two looks at the journal."""
PATIENCE_SECONDS = 300.0
"""How long a store that is down is waited for after the last run; it catches up at the next one."""

_log = logging.getLogger(__name__)


def fill_stores(journal: Path) -> None:
    """Apply a journal to the leaderboard and MLflow until all runs have ended and they have it all.

    A run whose process has died is ended as failed. Returns at once if another process does this.
    """
    if (lock := try_lock(journal.with_name(STORES_LOCK))) is None:
        return
    runs = journal.parents[2]
    named = os.environ.get("CSE_STORE")
    leaderboard = expand_url(named) if named else sqlite_url(runs / "leaderboard.db")
    mlflow = MLflowMirror(mlflow_uri(runs), artifacts=runs / "artifacts")

    def fill_leaderboard() -> None:
        # Opened anew each time, as `cse-leaderboard rebuild` may have replaced it.
        with open_store(leaderboard) as store:
            apply_journal(LeaderboardSink(store), journal)

    def fill_mlflow() -> None:
        apply_journal(mlflow, journal)

    filled = dict.fromkeys((fill_leaderboard, fill_mlflow), -1)
    recorded = RecordedRuns(journal)
    last_lived = time.monotonic()
    while True:
        # Decided under the journal's lock, so a run that begins later finds this process gone.
        with share_journal(journal) as append:
            living = recorded.end_dead(append)
            last_lived = time.monotonic() if living else last_lived
            gives_up = time.monotonic() - last_lived > PATIENCE_SECONDS
            if not living and (gives_up or min(filled.values()) == recorded.offset):
                lock.release()
                return
        for fill, until in filled.items():
            if until < recorded.offset:
                try:
                    fill()
                    filled[fill] = recorded.offset
                except StoreError as error:
                    _log.warning("a store is behind: %s", mask_text(str(error)))
        if living or min(filled.values()) < recorded.offset:
            time.sleep(INTERVAL_SECONDS)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    fill_stores(Path(sys.argv[1]))
