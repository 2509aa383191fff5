"""Delete what a sweep no longer needs, and nothing outside its own folders."""

import json
import logging
import os
import re
import socket
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from pyarrow.fs import FileSelector, FileType

from cse_methods.files.places import filesystem
from cse_platform.errors import SweepRefusedError
from cse_platform.safe_paths import find_below, resolve_links, try_to_delete
from cse_platform.secrets import mask_text, mask_url
from cse_platform.sweep.stores import JOURNAL_FILE, checkpoints_folder, models_folder, sweep_folder
from cse_platform.tracking.events import MODEL_DIGITS

_THREADS = 8
"""Number of folders that are deleted in parallel; a deletion in an object store takes seven
requests."""
_CLOSE_SECONDS = 10.0
"""Seconds that the end of a sweep waits for pending deletions."""

_OWNER_FILE = "owner.json"
"""The file in a sweep's folder of a storage that names the runs folder of the sweep."""
_OWNER_BYTES = 2**16
"""Number of bytes of it that are read at most."""

_log = logging.getLogger(__name__)


class OwnFolders:
    """The kept models and the checkpoints of one sweep: the only folders it may delete from.

    What cannot be deleted stays, with a warning. Checkpoints that a killed driver left are deleted
    at the next start (`delete_stale_checkpoints`).

    Args:
        storage: the folder or URI of checkpoints and models. Links that lead to it are followed,
            but none below it.
        sweep: the sweep's name.
        runs: the runs folder of the sweep.
    """

    def __init__(self, storage: str, sweep: str, runs: Path) -> None:
        self._storage, self._sweep, self.runs = storage, sweep, runs
        self.models = models_folder(storage, sweep, runs=runs)
        self.checkpoints = checkpoints_folder(storage, sweep)
        real_storage = resolve_links(storage)
        self._real_models = real_storage + self.models.removeprefix(storage)
        self._real_checkpoints = checkpoints_folder(real_storage, sweep)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="deletions")
        self._pending: set[Future[None]] = set()

    def refuse_other_owner(self, journal: str) -> None:
        """Refuse a sweep whose folder in the storage belongs to another runs folder.

        Each runs folder would delete what its own journal does not name. A folder whose owner was
        moved or removed on this machine is free, and so is one in this runs folder, which may be a
        copy. `journal` is the id of the sweep's journal.

        Raises SweepRefusedError also if the storage cannot be read.
        """
        own = _describe_owner(self.runs, journal)
        if self._is_in_runs():
            return
        owner = self._read_owner()
        if owner is None or (owner["runs"], owner["journal"]) == (own["runs"], own["journal"]):
            return
        other = sweep_folder(Path(owner["runs"]), self._sweep) / JOURNAL_FILE
        is_there = owner["runs"] != own["runs"] and os.path.lexists(other)
        if is_there or owner["host"] != own["host"]:
            raise SweepRefusedError(
                f"sweep {self._sweep!r} in {mask_url(self._storage)} is that of the runs folder "
                f"{owner['runs']} on {owner['host']}, whose checkpoints and models this one could "
                "delete. Here, start it with --set storage=OTHER or --set sweep=OTHER; if that "
                f"runs folder is gone, remove {mask_url(self._owner_file)}"
            )

    def is_claimed(self, journal: str) -> bool:
        """Whether the storage lies in the runs folder, or records a sweep of this journal.

        Without that, only the journal says so, which may come from somebody else.

        Raises SweepRefusedError if the storage cannot be read.
        """
        if self._is_in_runs():
            return True
        owner = self._read_owner()
        return owner is not None and owner["journal"] == journal

    def _is_in_runs(self) -> bool:
        return f"{resolve_links(self._storage)}/".startswith(f"{os.path.realpath(self.runs)}/")

    def claim(self, journal: str) -> None:
        """Record in the storage whose sweep it is, unless the storage is the runs folder itself.

        Raises SweepRefusedError if the storage cannot be written to.
        """
        own = _describe_owner(self.runs, journal)
        if resolve_links(self._storage) == own["runs"] or self._read_owner() == own:
            return
        try:
            files, path = filesystem(self._owner_file)
            files.create_dir(path.rpartition("/")[0], recursive=True)
            with files.open_output_stream(path) as file:
                file.write(json.dumps(own).encode())
        except (OSError, ValueError) as error:
            raise self._storage_error("written to", error) from error

    @property
    def _owner_file(self) -> str:
        return f"{self.checkpoints.rpartition('/')[0]}/{_OWNER_FILE}"

    def _read_owner(self) -> dict[str, str] | None:
        """Read whose the sweep's folder is; None if nobody's."""
        storage = resolve_links(self._storage)
        if os.path.lexists(sweep_folder(Path(storage), self._sweep) / JOURNAL_FILE):
            return _describe_owner(Path(storage), "")  # it is a runs folder itself
        try:
            files, path = filesystem(self._owner_file)
            if (kind := files.get_file_info(path).type) == FileType.NotFound:
                return None
            if kind != FileType.File:  # a pipe or a device would never end
                raise ValueError("it is no regular file")
            with files.open_input_stream(path) as file:
                owner = json.loads(file.read(_OWNER_BYTES))
            return {name: str(owner[name]) for name in ("runs", "host", "journal")}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._storage_error("read", error) from error

    def _storage_error(self, what: str, error: Exception) -> SweepRefusedError:
        file, why = mask_url(self._owner_file), mask_text(str(error) or repr(error))
        return SweepRefusedError(
            f"{file}, which says whose sweep this is, cannot be {what}: {why}; name another "
            "storage by --set storage=OTHER"
        )

    def model_location(self, trial: str) -> str:
        """The folder or URI where this sweep keeps the model of a trial, given its key."""
        return f"{self.models}/{trial[:MODEL_DIGITS]}"

    def holds_model(self, location: str, trial: str) -> bool:
        """Whether a location is where this sweep keeps the model of a trial, given its key."""
        name = trial[:MODEL_DIGITS]
        return find_below(self._real_models, location) == f"{self._real_models}/{name}"

    def delete_model(self, trial: str) -> None:
        """Delete the model that this sweep keeps of a trial, given its key."""
        try_to_delete(self._real_models, self.model_location(trial))

    def delete_checkpoint(self, location: str) -> None:
        """Delete a checkpoint in a background thread, if it is one of this sweep."""
        future = self._threads.submit(try_to_delete, self._real_checkpoints, location)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)

    def delete_stale_checkpoints(self, *, needed: Collection[str]) -> None:
        """Delete the checkpoints of this sweep that are not needed, in background threads.

        Deletes none, with a warning, if their folder cannot be read.
        """
        files, path = filesystem(self.checkpoints)
        try:
            listed = files.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
        except OSError as error:
            folder = mask_url(self.checkpoints)
            _log.warning("%s cannot be read: %s", folder, mask_text(str(error)))
            return
        kept = {find_below(self._real_checkpoints, location) for location in needed}
        inside = re.compile(re.escape(path) + r"(/[^/]+/checkpoint_[^/]+)")
        checkpoints = {match[1] for info in listed if (match := inside.match(info.path))}
        for below in sorted(checkpoints):
            if f"{self._real_checkpoints}{below}" not in kept:
                self.delete_checkpoint(f"{self.checkpoints}{below}")

    def delete_checkpoints(self, *, with_owner: bool = False) -> None:
        """Delete the folder of all checkpoints of this sweep, and maybe the record of whose it is.

        Without that record another runs folder may use the sweep's name.
        """
        folder = self._real_checkpoints.rpartition("/")[0]
        try_to_delete(folder, self.checkpoints)
        if with_owner:
            try_to_delete(folder, self._owner_file)

    def close(self) -> None:
        """Wait a few seconds for pending deletions, then abandon the rest."""
        wait(list(self._pending), timeout=_CLOSE_SECONDS)
        self._threads.shutdown(cancel_futures=True)


def _describe_owner(runs: Path, journal: str) -> dict[str, str]:
    return {"runs": os.path.realpath(runs), "host": socket.gethostname(), "journal": journal}
