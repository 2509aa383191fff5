"""Fills the stores from the journal of recorded runs, in a process of its own: one a journal.

It lives as long as a run does, ends those whose processes have died, and ends when every store has
everything. `record` starts it: python -m cse_platform.stores.recording JOURNAL
"""

import logging
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cse_platform.errors import JournalError, NoStoreError, OtherSweepError, StoreError
from cse_platform.secrets import mask_text
from cse_platform.standard_streams import echo
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.sql.keyed_rows import refuse_other_journal
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.stores.sql.store import open_for_reading, open_store
from cse_platform.stores.sql.tables import sweep_or_none
from cse_platform.sweep.stores import leaderboard_url, mlflow_uri
from cse_platform.tracking.journal import read_journal_id, share_journal
from cse_platform.tracking.recorded_runs import RecordedRuns, try_lock

STORES_LOCK = "stores.lock"
"""The file beside the journal that the process which fills the stores has locked."""
STORES_LOG = "stores.log"
"""The file beside the journal with what that process logs."""
INTERVAL_SECONDS = 1.0
"""Time between two looks at the journal."""
PATIENCE_SECONDS = 300.0
"""How long a store that is down is waited for after the last run; it catches up at the next one."""

_log = logging.getLogger(__name__)


def has_sweep(journal: Path) -> bool:
    """Return whether the leaderboard has the sweep of a journal, which may not exist yet.

    Raises OtherSweepError if it has another one of that name, StoreError if it cannot be read.
    """
    try:
        with (
            open_for_reading(leaderboard_url(journal.parents[2])) as store,
            store.session() as session,
        ):
            sweep = sweep_or_none(session, journal.parent.name)
            # Read after the leaderboard, as another process may have begun the journal meanwhile.
            own = read_journal_id(journal) if sweep and journal.exists() else ""
            refuse_other_journal(session, sweep, own)
            return sweep is not None
    except NoStoreError:
        return False


def fill_leaderboard(journal: Path) -> None:
    """Apply to the leaderboard what it lacks of a journal.

    It is opened anew each time, as `cse-leaderboard rebuild` may have replaced it. Raises
    OtherSweepError if it has another sweep of that name, StoreError or JournalError if it or the
    journal cannot be used.
    """
    with open_store(leaderboard_url(journal.parents[2])) as store:
        apply_journal(LeaderboardSink(store), journal)


@contextmanager
def left_out_told(journal: Path) -> Iterator[None]:
    """Say so if a block finds that the leaderboard leaves a sweep out: it has another one so named.

    Other errors of the block are left to the process that fills the stores, which logs them.
    """
    try:
        yield
    except OtherSweepError as error:
        echo(
            f"{error}; this one stays in {journal}, and cse-leaderboard rebuild with both runs "
            "folders (--from) adds it under another name",
            err=True,
        )
    except (StoreError, JournalError):
        pass


def start_filling(journal: Path) -> None:
    """Start the process that fills the stores from a journal, unless one runs."""
    if (lock := try_lock(journal.with_name(STORES_LOCK))) is None:
        return
    lock.release()
    with (journal.with_name(STORES_LOG)).open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "cse_platform.stores.recording", str(journal)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def fill_stores(journal: Path) -> None:
    """Apply a journal to the leaderboard and MLflow until all runs have ended and they have it all.

    A run whose process has died is ended as failed. A store that has another sweep of the name is
    left alone. Returns at once if another process does this.
    """
    if (lock := try_lock(journal.with_name(STORES_LOCK))) is None:
        return
    runs = journal.parents[2]
    mlflow = MLflowMirror(mlflow_uri(runs), artifacts=runs / "artifacts")

    def fill_mlflow(journal: Path) -> None:
        apply_journal(mlflow, journal)

    filled: dict[Callable[[Path], None], float] = dict.fromkeys((fill_leaderboard, fill_mlflow), -1)
    recorded = RecordedRuns(journal)
    last_lived = time.monotonic()
    while True:
        # Decided under the journal's lock, so a run that begins later finds this process gone.
        with share_journal(journal) as append:
            living = recorded.end_dead(append)
            last_lived = time.monotonic() if living else last_lived
            gives_up = time.monotonic() - last_lived > PATIENCE_SECONDS
            if not living and (gives_up or min(filled.values()) >= recorded.offset):
                lock.release()
                return
        for fill, until in filled.items():
            if until < recorded.offset:
                try:
                    fill(journal)
                    filled[fill] = recorded.offset
                except OtherSweepError as error:
                    _log.warning("a store leaves the runs out: %s", mask_text(str(error)))
                    filled[fill] = math.inf
                except StoreError as error:
                    _log.warning("a store is behind: %s", mask_text(str(error)))
        if living or min(filled.values()) < recorded.offset:
            time.sleep(INTERVAL_SECONDS)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    fill_stores(Path(sys.argv[1]))
