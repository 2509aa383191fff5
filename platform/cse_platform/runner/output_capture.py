"""Capture in a worker what its trial prints, from Python or native code, and report it."""

import ctypes
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb

from cse_platform.runner.failures import clean_text
from cse_platform.runner.report_messages import Printed, Report, find_attempt, send
from cse_platform.standard_streams import open_dropping

OUTPUT = "output"
"""The file with the whole output of a trial, in the folder of its checkpoints, unless that is on an
object store."""
MAX_REPORTED = 2**16
"""The most bytes in one report: half of them the oldest, half the newest."""
_MAX_FILE = 2**20
"""A longer file is emptied once its content is reported."""
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
"""Text that a progress bar has overwritten."""


class OutputCapture:
    """Redirects the standard output and error of this process into a file.

    If the process is killed, the file stays, and the driver can read what was not reported. Output
    that does not fit on a full disk is lost.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o666)
        except OSError:
            self._fd = os.open(os.devnull, os.O_RDWR)
        _flush_streams()
        self._former = {fd: os.dup(fd) for fd in (1, 2)}
        for fd in self._former:
            os.dup2(self._fd, fd)
        self._former_streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = open_dropping(1), open_dropping(2)
        self._offset = self._total = 0

    def take(self, *, last: bool = False) -> Printed | None:
        """Return what was printed since the last call, or None if there is nothing.

        An unfinished line waits for the next call, unless this is the `last` one.
        """
        _flush_streams()
        size = os.fstat(self._fd).st_size
        content, unfinished = read_both_ends(self._fd, self._offset, size), b""
        if not last and (ended := content.rfind(b"\n") + 1):
            content, unfinished = content[:ended], content[ended:]
            size -= len(unfinished)
        elif not last and len(content) < MAX_REPORTED:
            return None
        if not content:
            return None
        self._total += size - self._offset
        self._offset = size
        if size > _MAX_FILE:
            os.ftruncate(self._fd, 0)
            with suppress(OSError):
                os.write(self._fd, unfinished)
            self._offset = 0
        text = clean_text(decode_output(content))  # here, because Ray writes it to its own files
        return Printed(text=text, total=self._total, offset=self._offset)

    def close(self) -> None:
        """Restore the former standard output and error, and delete the file."""
        _flush_streams()
        sys.stdout, sys.stderr = self._former_streams
        _flush_streams()
        for fd, former in self._former.items():
            os.dup2(former, fd)
            os.close(former)
        os.close(self._fd)
        with suppress(OSError):  # it may not exist
            self._file.unlink()


@contextmanager
def capture_output(checkpoints: str) -> Iterator[OutputCapture]:
    """Capture what this process prints while the context is open; report the rest at its end.

    `checkpoints` is the folder or URI of the sweep's checkpoints.
    """
    local = "://" not in checkpoints
    folder = Path(checkpoints, find_attempt() if local else tempfile.mkdtemp(prefix="cse-output-"))
    logging.getLogger("ray.train").setLevel(logging.WARNING)  # it logs every checkpoint
    capture = OutputCapture(folder / OUTPUT)
    try:
        yield capture
        _report_remaining(capture)
    except BaseException as error:
        if not is_stopped_by_tune(error):
            _report_remaining(capture)
        raise
    finally:
        capture.close()
        if not local:
            folder.rmdir()


def _report_remaining(capture: OutputCapture) -> None:
    if remaining := capture.take(last=True):
        send(Report(attempt=find_attempt(), output=remaining))


def is_stopped_by_tune(error: BaseException) -> bool:
    """Whether an error is the SystemExit that Tune raises when a stopped trial reports."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    raised_by = frames[-1].f_globals.get("__name__", "")
    return isinstance(error, SystemExit) and str(raised_by).startswith("ray.")


def decode_output(content: bytes) -> str:
    """Decode printed bytes, without text that progress bars have overwritten."""
    return _OVERWRITTEN.sub("", content.decode(errors="replace").replace("\r\n", "\n"))


def read_both_ends(fd: int, start: int, end: int) -> bytes:
    """Read bytes `start` to `end` of a file; if more than `MAX_REPORTED`, the first and last half.

    Both halves consist of whole lines where possible, because a secret cut in half would not be
    masked.
    """
    if end - start <= MAX_REPORTED:
        return os.pread(fd, end - start, start)
    half = MAX_REPORTED // 2
    first, last = os.pread(fd, half, start), os.pread(fd, half, end - half)
    first = first[: first.rfind(b"\n") + 1] or first
    last = last[last.find(b"\n") + 1 :] or last
    left_out = f"\n… {end - start - len(first) - len(last)} bytes left out …\n".encode()
    return first + left_out + last


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError, AttributeError):  # a method may have replaced it
            stream.flush()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)  # native code writes to a file in blocks
