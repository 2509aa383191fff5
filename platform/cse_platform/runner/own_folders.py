"""Delete what a sweep no longer needs, and nothing outside its own folders.

No other module deletes what a journal or a store names. Journals come from other people, or are
copies beside their original, so a location is compared with the folders of the sweep that runs
here, after links are resolved. A link itself can be deleted, what it leads to is not.
"""

import logging
import os
import re
import shutil
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from urllib.parse import unquote

from pyarrow.fs import FileSelector, FileType, LocalFileSystem

from cse_methods.files.places import filesystem, is_remote
from cse_platform.errors import SweepRefusedError
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
    """The kept models and the checkpoints of one sweep: what alone it may delete.

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
        _try_to_delete(self._real_models, self.model_location(trial))

    def delete_checkpoint(self, location: str) -> None:
        """Delete a checkpoint in a background thread, if it is one of this sweep."""
        future = self._threads.submit(_try_to_delete, self._real_checkpoints, location)
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
        _try_to_delete(self._real_checkpoints.rpartition("/")[0], self.checkpoints)

    def close(self) -> None:
        """Wait a few seconds for pending deletions, then abandon the rest."""
        wait(list(self._pending), timeout=_CLOSE_SECONDS)
        self._threads.shutdown(cancel_futures=True)


def delete_below(folder: str, location: str) -> None:
    """Delete a file or folder below another folder; nothing happens if it does not exist.

    Args:
        folder: a path without links, as `resolve_links` returns it, or a URI.
        location: what to delete; of a link, only the link is deleted.

    Raises:
        SweepRefusedError: if the location does not lie below the folder once links are resolved.
        OSError, ValueError: if it cannot be deleted; of a local folder, what can be is deleted.
    """
    if (place := find_below(folder, location)) is None:
        raise SweepRefusedError(
            f"{mask_url(location)} is not in {mask_url(folder)}, or only by a link, and can belong "
            "to somebody else: it was not deleted. A sweep follows no links below its storage; "
            "name another disk by storage: in its file"
        )
    files, path = filesystem(place)
    if isinstance(files, LocalFileSystem):
        found = Path(path)
        if found.is_dir() and not found.is_symlink():
            problems: list[OSError] = []
            shutil.rmtree(found, onerror=lambda _call, _path, raised: problems.append(raised[1]))
            if problems:
                raise problems[0]
        else:
            found.unlink(missing_ok=True)
    elif files.get_file_info(path).type == FileType.Directory:
        files.delete_dir(path)


def find_below(folder: str, location: str) -> str | None:
    """Resolve the links of a location, but for its last name; None if it is not below a folder.

    The folder is as for `delete_below`.
    """
    try:
        above, name = os.path.split(location)
        place = f"{resolve_links(above)}/{name}"
    except (OSError, ValueError):  # such as for a null character
        return None
    if not place.startswith(f"{folder}/"):
        return None
    below = place.removeprefix(f"{folder}/")
    if is_remote(place):
        below = unquote(below)
        if "?" in below or "#" in below:  # they would change which store is meant
            return None
    return None if {"", ".", ".."}.intersection(below.split("/")) else place


def resolve_links(place: str) -> str:
    """Resolve the links of a local path; the URI of an object store stays as it is."""
    if is_remote(place) and not place.startswith("file:"):
        return place
    return os.path.realpath(filesystem(place)[1])


def _try_to_delete(folder: str, location: str) -> None:
    try:
        delete_below(folder, location)
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be deleted: %s", mask_url(location), mask_text(str(error)))
    except SweepRefusedError as error:
        _log.warning("%s", error)
