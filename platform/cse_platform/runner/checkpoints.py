"""Write the checkpoints of one trial in its worker, at intervals and in a background thread."""

import math
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pyarrow.fs import FileSystem, FileType, LocalFileSystem, copy_files
from ray import tune

from cse_methods.contract import LateSave
from cse_methods.files.places import filesystem
from cse_platform.runner.models import is_full, wait_for_room
from cse_platform.runner.reports import CheckpointReport, Report, find_attempt, send

_REQUEST = "save_now"
"""A file beside the trials' folders that exists while the sweep is about to end."""
_UNFINISHED = "checkpoint_unfinished"
"""The folder in a trial's folder where a checkpoint is written. If the process is killed, it is
deleted with the trial's other checkpoints."""


def request_checkpoints(root: str) -> None:
    """Ask all trials of a sweep to write a checkpoint at their next dev point."""
    files, path = filesystem(f"{root}/{_REQUEST}")
    with files.open_output_stream(path):
        pass


def withdraw_request(root: str) -> None:
    """Withdraw that request, so that trials again write checkpoints at intervals only."""
    files, path = filesystem(f"{root}/{_REQUEST}")
    if files.get_file_info(path).type != FileType.NotFound:
        files.delete_file(path)


class TrialCheckpoints:
    """Reports dev points to Tune, with a checkpoint where one is due.

    In a sweep, checkpoints are written into its storage, of which Ray knows nothing: it would copy
    each, and write a snapshot of all trials. Elsewhere they are handed to Ray.

    A `LateSave` is due when `every` seconds have passed since the last checkpoint. Its state is
    copied, and a thread writes the copy while training goes on; the next dev point reports it. The
    checkpoint is written before its own dev point is reported if dev points are at least `every`
    seconds apart, at the trial's last dev point, if the driver asks for it, and always for any
    other kind of `save`. While the disk is full, a trial goes on without checkpoints; only at its
    last one does it wait.

    Args:
        every: seconds between two checkpoints.
        root: the folder or URI of the sweep's checkpoints; None outside of a sweep.
        seconds: the clock.
    """

    def __init__(
        self,
        every: float,
        *,
        root: str | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every, self._root, self._seconds = every, root, seconds
        self._files: FileSystem = LocalFileSystem()
        self._folder: str | None = None
        if root is not None:
            self._files, self._folder = filesystem(f"{root}/{find_attempt()}")
        self._saved = self._reported = seconds()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._written: Future[Path] | None = None
        """The folder of the copy that is being written, or is written and not yet reported."""
        self._step = 0
        """The step of that copy."""
        self.last: tuple[FileSystem, str] | None = None
        """Where a sweep's last reported checkpoint is."""

    def report(self, point: Report, *, step: int, save: Callable[[Path], None] | None) -> None:
        """Report a dev point. Tune may end the trial here, in which case this does not return."""
        now = self._seconds()
        apart, self._reported = now - self._reported, now
        if save is None:
            send(point)
        elif (
            not isinstance(save, LateSave)
            or save.last
            or apart >= self._every
            or self._is_requested()
        ):
            self._drop_copy()
            self._saved = now
            waits = Report(attempt=point.attempt, waits="no room on the disk for a checkpoint")
            folder = wait_for_room(
                lambda: self._write(save), what="a checkpoint", waiting=lambda: send(waits)
            )
            self._report_with(point, step, folder)
        else:
            self._report_copy(point)
            if self._written is None and now - self._saved >= self._every:
                self._saved, self._step = now, step
                self._written = self._thread.submit(self._write, save.copied())

    def close(self) -> None:
        """Wait for a write in progress, and delete a copy that was not reported."""
        self._drop_copy()
        self._thread.shutdown()

    def _report_copy(self, point: Report) -> None:
        """Report a dev point, with an earlier one's checkpoint if that is complete by now."""
        if self._written is None or not self._written.done():
            send(point)
            return
        written, self._written = self._written, None
        if (error := written.exception()) is None:
            self._report_with(point, self._step, written.result())
        elif is_full(error):
            self._saved = -math.inf
            send(point)
        else:
            raise error

    def _report_with(self, point: Report, step: int, folder: Path) -> None:
        """Report a dev point with a complete checkpoint, which is moved to its place."""
        if self._folder is None:
            try:
                send(point, checkpoint=tune.Checkpoint.from_directory(folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
        name = f"checkpoint_{step}"
        place = f"{self._folder}/{name}"
        if isinstance(self._files, LocalFileSystem):
            # A method may report a step twice.
            shutil.rmtree(place, ignore_errors=True)
            folder.rename(place)
        else:
            try:
                self._files.create_dir(place, recursive=True)
                copy_files(str(folder), place, destination_filesystem=self._files)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        self.last = self._files, place
        send(point.model_copy(update={"checkpoint": CheckpointReport(step=step, folder=name)}))

    def _drop_copy(self) -> None:
        if self._written is not None and self._written.exception() is None:
            shutil.rmtree(self._written.result(), ignore_errors=True)
        self._written = None

    def _is_requested(self) -> bool:
        if self._root is None:
            return False
        files, request = filesystem(f"{self._root}/{_REQUEST}")
        return bool(files.get_file_info(request).type != FileType.NotFound)

    def _write(self, save: Callable[[Path], None]) -> Path:
        """Write a checkpoint into a new folder, in the sweep's storage unless that is elsewhere.

        There the best encoder can be hard-linked instead of written again, if it is on the same
        disk.
        """
        if self._folder is not None and isinstance(self._files, LocalFileSystem):
            folder = Path(self._folder, _UNFINISHED)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        else:
            folder = Path(tempfile.mkdtemp(prefix="cse-checkpoint-"))
        try:
            save(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder
