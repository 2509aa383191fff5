"""Delete what a sweep no longer needs, and nothing outside its own folders."""

import logging
import re
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait

from pyarrow.fs import FileSelector

from cse_methods.files.places import filesystem
from cse_platform.safe_deletion import find_below, resolve_links, try_to_delete
from cse_platform.secrets import mask_text, mask_url
from cse_platform.sweep.stores import checkpoints_folder, models_folder
from cse_platform.tracking.events import MODEL_DIGITS

_THREADS = 8
"""Number of folders that are deleted in parallel; a deletion in an object store takes seven
requests."""
_CLOSE_SECONDS = 10.0
"""Seconds that the end of a sweep waits for pending deletions."""

_log = logging.getLogger(__name__)


class OwnFolders:
    """The kept models and the checkpoints of one sweep: the only folders it may delete from.

    What cannot be deleted stays, with a warning. Checkpoints that a killed driver left are deleted
    at the next start (`delete_stale_checkpoints`).

    Args:
        storage: the folder or URI of checkpoints and models. Links that lead to it are followed,
            but none below it.
        sweep: the sweep's name.
    """

    def __init__(self, storage: str, sweep: str) -> None:
        self.models = models_folder(storage)
        self.checkpoints = checkpoints_folder(storage, sweep)
        real_storage = resolve_links(storage)
        self._real_models = models_folder(real_storage)
        self._real_checkpoints = checkpoints_folder(real_storage, sweep)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="deletions")
        self._pending: set[Future[None]] = set()

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
            where = mask_url(self.checkpoints)
            _log.warning("%s cannot be read: %s", where, mask_text(str(error)))
            return
        kept = {find_below(self._real_checkpoints, location) for location in needed}
        inside = re.compile(re.escape(path) + r"(/[^/]+/checkpoint_[^/]+)")
        checkpoints = {match[1] for info in listed if (match := inside.match(info.path))}
        for below in sorted(checkpoints):
            if f"{self._real_checkpoints}{below}" not in kept:
                self.delete_checkpoint(f"{self.checkpoints}{below}")

    def delete_checkpoints(self) -> None:
        """Delete the folder of all checkpoints of this sweep."""
        try_to_delete(self._real_checkpoints.rpartition("/")[0], self.checkpoints)

    def close(self) -> None:
        """Wait a few seconds for pending deletions, then abandon the rest."""
        wait(list(self._pending), timeout=_CLOSE_SECONDS)
        self._threads.shutdown(cancel_futures=True)
