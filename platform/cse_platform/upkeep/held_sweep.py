"""Locate a sweep, and hold it so that no driver starts it while it is cleaned up."""

import os
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from cse_platform.errors import JournalError
from cse_platform.leaderboard.ingest.lease import Lease
from cse_platform.leaderboard.ingest.removal import remove_messages
from cse_platform.leaderboard.store import Store
from cse_platform.leaderboard.stored_sweeps import lease_owners
from cse_platform.sweep.stores import JOURNAL_FILE, sweep_folder
from cse_platform.tracking.journal import DELETION, lock_journal, read_journal_id


@dataclass(frozen=True)
class LocatedSweep:
    """A sweep, and where its folder is."""

    sweep: str
    runs: Path
    """The runs folder that contains the sweep, or the given one if it is not found."""
    folder: Path | None
    """The sweep's folder; None if it is not on this machine."""
    elsewhere: str
    """A description of where its journal is, if not here; empty if that is unknown."""

    @property
    def journal(self) -> Path | None:
        """The path of its journal; None if that is not on this machine."""
        return None if self.folder is None else self.folder / JOURNAL_FILE


def locate_sweep(
    session: Session, sweep: str, runs: Path, journals: Collection[str]
) -> LocatedSweep:
    """Locate the folder of a sweep: in the runs folder, or where its last driver had it.

    A folder belongs to this sweep if its journal is one of `journals`, or if its deletion has
    begun. The runs folder comes first, because in a copy of one, such as a restored backup, the
    last driver is still that of the original folder.
    """
    last = lease_owners(session, sweep).get(sweep)
    named = sweep_folder(runs.absolute(), sweep)
    folders = [named] if last is None or not last.folder else [named, Path(last.folder)]
    for folder in folders:
        if _is_of_sweep(folder, journals):
            return LocatedSweep(sweep, folder.parent.parent, folder, "")
    elsewhere = ""
    if last is not None and last.folder:
        host = "" if last.host == socket.gethostname() else f" on {last.host}"
        elsewhere = f"{last.folder}{host}"
    return LocatedSweep(sweep, runs.absolute(), None, elsewhere)


def _is_of_sweep(folder: Path, journals: Collection[str]) -> bool:
    if not os.access(folder, os.R_OK | os.X_OK):
        return False
    journal = folder / JOURNAL_FILE
    if (folder / DELETION).exists():
        return True
    try:
        return journal.exists() and read_journal_id(journal) in journals
    except JournalError:
        return False


@contextmanager
def hold_sweep(board: Store, place: LocatedSweep) -> Iterator[Lease]:
    """Hold a sweep's lease, and its journal if that is on this machine.

    Raises:
        SweepRefusedError: if a driver holds the sweep.
        JournalError: if another process has its journal open.
    """
    with Lease(board, place.sweep, None) as lease:
        if place.journal is None:
            yield lease
            return
        lock = lock_journal(place.journal)
        try:
            yield lease
        finally:
            lock.release()


@contextmanager
def write_slice(board: Store, lease: Lease) -> Iterator[Session]:
    """Open a transaction that renews the lease, and let others write afterwards."""
    with board.writing() as session:
        lease.renew(session)
        yield session
    board.let_others_write()


def remove_all_messages(board: Store, lease: Lease, journal: str) -> None:
    """Remove all messages that come from a journal, in batches."""
    removed = 1
    while removed:
        with write_slice(board, lease) as session:
            removed = remove_messages(session, journal)


def folder_size(folder: Path) -> int:
    """Sum the sizes of the files below a folder, in bytes; 0 if there is none."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def format_size(size: int) -> str:
    """Format a number of bytes with a unit."""
    for unit, bytes_ in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size} bytes"
