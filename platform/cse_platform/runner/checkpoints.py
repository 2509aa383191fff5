"""Write the checkpoints of one trial in its worker, at intervals and in a background thread."""

import math
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pyarrow.fs import FileType, copy_files
from ray import tune

from cse_methods.contract import LateSave
from cse_methods.files.places import filesystem
from cse_platform.kept_models import exists, is_full, wait_for_room
from cse_platform.runner.report_messages import Report, checkpoint_location, find_attempt, send

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
        self._local = None if root is None or "://" in root else Path(root, find_attempt())
        """The folder of the checkpoints, if a sweep has them on this machine."""
        self._saved = self._reported = seconds()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._copy: tuple[int, Future[Path]] | None = None
        """The step and the folder of a copy that is being written, or is not yet reported."""
        self.last: str | None = None
        """The location of a sweep's last reported checkpoint."""

    def report_point(
        self, report: Report, *, step: int, save: Callable[[Path], None] | None
    ) -> None:
        """Report a dev point. Tune may end the trial here, in which case this does not return."""
        now = self._seconds()
        interval, self._reported = now - self._reported, now
        if save is None:
            send(report)
        elif (
            not isinstance(save, LateSave)
            or save.last
            or interval >= self._every
            or (self._root is not None and exists(f"{self._root}/{_REQUEST}"))
        ):
            self._drop_copy()
            self._saved = now
            waits = Report(attempt=report.attempt, waits="no room on the disk for a checkpoint")
            folder = wait_for_room(
                lambda: self._write_checkpoint(save),
                what="a checkpoint",
                waiting=lambda: send(waits),
            )
            self._report_checkpoint(report, step, folder)
        else:
            self._report_copy(report)
            if self._copy is None and now - self._saved >= self._every:
                self._saved = now
                self._copy = step, self._thread.submit(self._write_checkpoint, save.copied())

    def close(self) -> None:
        """Wait for a write in progress, and delete a copy that was not reported."""
        self._drop_copy()
        self._thread.shutdown()

    def _report_copy(self, report: Report) -> None:
        """Report a dev point, with an earlier one's checkpoint if that is complete by now."""
        if self._copy is None or not self._copy[1].done():
            send(report)
            return
        (step, written), self._copy = self._copy, None
        if (error := written.exception()) is None:
            self._report_checkpoint(report, step, written.result())
        elif is_full(error):
            self._saved = -math.inf
            send(report)
        else:
            raise error

    def _report_checkpoint(self, report: Report, step: int, folder: Path) -> None:
        """Report a dev point with a complete checkpoint, which is moved to its place."""
        try:
            if self._root is None:
                send(report, checkpoint=tune.Checkpoint.from_directory(folder))
                return
            self.last = checkpoint_location(self._root, report.attempt, step)
            if self._local is not None:
                shutil.rmtree(self.last, ignore_errors=True)  # a method may report a step twice
                folder.rename(self.last)
            else:
                files, path = filesystem(self.last)
                files.create_dir(path, recursive=True)
                copy_files(str(folder), path, destination_filesystem=files)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        send(report.model_copy(update={"checkpoint_step": step}))

    def _drop_copy(self) -> None:
        if self._copy is not None and self._copy[1].exception() is None:
            shutil.rmtree(self._copy[1].result(), ignore_errors=True)
        self._copy = None

    def _write_checkpoint(self, save: Callable[[Path], None]) -> Path:
        """Write a checkpoint into a new folder, in the sweep's storage if that is a folder.

        There the best encoder can be hard-linked instead of written again.
        """
        if self._local is not None:
            folder = self._local / _UNFINISHED
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
