"""Archive a sweep, which removes what its journal can restore, and restore it.

Archiving compresses the journal first, which marks the sweep as archived, and restoring
decompresses it last. So a kill leaves an archived sweep, and the same command finishes the work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cse_methods.files.places import is_remote
from cse_platform.errors import JournalError, SweepRefusedError
from cse_platform.leaderboard.ingest.removal import count_messages
from cse_platform.leaderboard.ingest.sweep_events import add_message
from cse_platform.leaderboard.ingest.thinning import (
    find_slices,
    find_surplus,
    list_points,
    remove_surplus,
    restore_points,
)
from cse_platform.leaderboard.store import Store
from cse_platform.leaderboard.stored_sweeps import requested_sweep
from cse_platform.render.formats import format_count
from cse_platform.runner.own_folders import OwnFolders
from cse_platform.secrets import mask_url
from cse_platform.sweep.stores import storage_place
from cse_platform.tracking.events import IMPORTED, DriverMessage
from cse_platform.tracking.journal import (
    compress_journal,
    compressed_journal,
    read_journal,
    read_journal_id,
    refuse_begun_deletion,
    restore_journal,
)
from cse_platform.upkeep.held_sweep import (
    LocatedSweep,
    folder_size,
    format_size,
    hold_sweep,
    locate_sweep,
    remove_all_messages,
    write_slice,
)

_T = TypeVar("_T")
_AT_ONCE = 1000
"""The number of dev points or messages that one transaction restores."""


@dataclass(frozen=True)
class Archiving:
    """A sweep to archive or to restore, whose journal is on this machine."""

    url: str
    """URL of the leaderboard."""
    place: LocatedSweep
    journal: Path
    id: str
    """Id of the journal."""
    folders: OwnFolders
    surplus: int
    """Number of dev points to remove."""
    messages: int
    """Number of the driver's messages to remove."""
    cut_off: int
    """Number of trials that were cut off, and would resume from a checkpoint."""

    @property
    def parts(self) -> list[tuple[str, str, str]]:
        """What is removed, as rows: what it is, how much, and where."""
        board, parts = mask_url(self.url), list[tuple[str, str, str]]()
        if self.journal.exists():
            size = format_size(self.journal.stat().st_size)
            parts.append(("journal, compressed", size, str(self.journal)))
        if self.surplus:
            parts.append(("dev points", str(self.surplus), board))
        if self.messages:
            parts.append(("messages", str(self.messages), board))
        checkpoints = self.folders.checkpoints
        if is_remote(checkpoints):
            parts.append(("checkpoints", "all", mask_url(checkpoints)))
        elif there := folder_size(Path(checkpoints)):
            parts.append(("checkpoints", format_size(there), checkpoints))
        return parts

    @property
    def effects(self) -> list[str]:
        """The consequences for resuming the sweep, one sentence each."""
        if not self.cut_off:
            return []
        trials = format_count(self.cut_off, "trial")
        return [f"{trials} of it, cut off, would begin anew: the checkpoints go"]

    @property
    def size(self) -> int:
        """The size of the journal in bytes, in its current form."""
        packed = compressed_journal(self.journal)
        return (self.journal if self.journal.exists() else packed).stat().st_size

    def archive(self, board: Store) -> None:
        """Archive the sweep.

        Raises:
            SweepRefusedError: if a driver holds the sweep.
            StoreError, JournalError: if a store or a file cannot be changed; a repeat continues.
        """
        with hold_sweep(board, self.place) as lease:
            try:
                compress_journal(self.journal)
            except OSError as error:
                raise JournalError(f"cannot compress {self.journal}: {error.strerror}") from error
            with board.session() as session:
                slices = find_slices(session, self.id)
            for configurations in slices:
                with write_slice(board, lease) as session:
                    remove_surplus(session, find_surplus(session, self.id, configurations))
            remove_all_messages(board, lease, self.id)
            self.folders.delete_checkpoints()

    def restore(self, board: Store) -> None:
        """Undo `archive`, except for the checkpoints; raises the same errors."""
        with hold_sweep(board, self.place) as lease:
            entries = list(read_journal(self.journal))
            curves = list_points(event for _, event in entries)
            points = [point for curve in curves.values() for point in curve.values()]
            for some in _cut_into_slices(points):
                with write_slice(board, lease) as session:
                    restore_points(session, self.id, some)
            said = [(end, event) for end, event in entries if isinstance(event, DriverMessage)]
            for messages in _cut_into_slices(said):
                with write_slice(board, lease) as session:
                    for end, message in messages:
                        add_message(session, self.id, end, message)
            try:
                restore_journal(self.journal)
            except OSError as error:
                raise JournalError(f"cannot restore {self.journal}: {error.strerror}") from error


def plan_archiving(board: Store, url: str, sweep: str, *, runs: Path) -> Archiving:
    """Find out what archiving a sweep would remove, without changing anything.

    Raises:
        NotFoundError: if there is no sweep of that name.
        SweepRefusedError: if its journal is not on this machine, or it has none, or its part of the
            storage belongs to another runs folder.
        JournalError: if its deletion has begun.
    """
    with board.session() as session:
        asked = requested_sweep(session, sweep)
        place = locate_sweep(session, sweep, runs, asked.journals)
        if place.journal is None:
            raise SweepRefusedError(_explain_no_journal(place, asked.spec.get("source")))
        refuse_begun_deletion(place.journal)
        journal = read_journal_id(place.journal)
        surplus = find_surplus(
            session, journal, [one for some in find_slices(session, journal) for one in some]
        )
        messages = count_messages(session, journal)
    folders = OwnFolders(storage_place(asked.spec.get("storage"), place.runs), sweep, place.runs)
    folders.refuse_other_owner(journal)
    return Archiving(
        url,
        place,
        place.journal,
        journal,
        folders,
        surplus=sum(len(steps) for _, steps in surplus),
        messages=messages,
        cut_off=list(asked.trials.values()).count("RUNNING"),
    )


def plan_restoring(board: Store, url: str, sweep: str, *, runs: Path) -> Archiving:
    """Find an archived sweep; raises as `plan_archiving`, or if the sweep is not archived."""
    archived = plan_archiving(board, url, sweep, runs=runs)
    if not compressed_journal(archived.journal).exists():
        raise SweepRefusedError(f"sweep {sweep!r} is not archived: {archived.journal} is there")
    return archived


def _explain_no_journal(place: LocatedSweep, source: object) -> str:
    what = f"sweep {place.sweep!r}"
    if source == IMPORTED:
        return f"{what} was imported: it has no journal that its dev points could come back from"
    if place.elsewhere:
        return f"the journal of {what} lies in {place.elsewhere}; archive it there"
    return (
        f"the journal of {what} is not in {place.runs}, and it cannot be archived without; name "
        "its runs folder by --runs"
    )


def _cut_into_slices(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))
