"""Captures in a worker what its trial prints, by Python or by native code, and reports it."""

import ctypes
import io
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb
from typing import Any, TextIO

from pyarrow.fs import LocalFileSystem
from ray import tune

OUTPUT = "output"
"""The entry of a result with what the trial has printed since the last one, as `take` makes it. The
file that has all of it bears the same name; it lies in Ray's folder of the trial, unless that is an
object store."""
MAX_REPORTED = 2**16
"""The most bytes that one result has, half of them the oldest and half the newest."""
_MAX_FILE = 2**20
"""A file that has become longer is emptied once it is reported."""
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
"""What a progress bar has drawn over."""


class _DroppingFile(io.FileIO):
    """A file descriptor that drops what the disk has no room for: a trial goes on without it."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError:
            return len(content)


class OutputCapture:
    """Redirects the standard output and error of this process into a file.

    The file stays when the process is killed, so that the driver can read what was not reported.
    What a full disk has no room for is lost.
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
        sys.stdout, sys.stderr = _open_stream(1), _open_stream(2)
        self._offset = self._total = 0

    def take(self, *, last: bool = False) -> dict[str, Any]:
        """Return what was printed since the last call: its text, and how far that reaches.

        `total` counts all bytes so far, and `offset` is the place in the file after the text. A
        line without an end waits for the next call, if this is not the `last` one. Returns {} if
        there is nothing.
        """
        _flush_streams()
        size = os.fstat(self._fd).st_size
        content, unfinished = read_both_ends(self._fd, self._offset, size), b""
        if not last and (ended := content.rfind(b"\n") + 1):
            content, unfinished = content[:ended], content[ended:]
            size -= len(unfinished)
        elif not last and len(content) < MAX_REPORTED:
            return {}
        if not content:
            return {}
        self._total += size - self._offset
        self._offset = size
        if size > _MAX_FILE:
            os.ftruncate(self._fd, 0)
            with suppress(OSError):
                os.write(self._fd, unfinished)
            self._offset = 0
        text = decode_output(content)
        return {OUTPUT: {"text": text, "total": self._total, "offset": self._offset}}

    def close(self) -> None:
        """Give the process its former output back, and delete the file."""
        _flush_streams()
        sys.stdout, sys.stderr = self._former_streams
        _flush_streams()
        for fd, former in self._former.items():
            os.dup2(former, fd)
            os.close(former)
        os.close(self._fd)
        with suppress(OSError):  # it may never have been made
            self._file.unlink()


@contextmanager
def capture_output() -> Iterator[OutputCapture]:
    """Capture what this process prints while the context is open; what is left is reported."""
    storage = tune.get_context().get_storage()
    local = isinstance(storage.storage_filesystem, LocalFileSystem)
    folder = Path(storage.trial_fs_path) if local else Path(tempfile.mkdtemp(prefix="cse-output-"))
    logging.getLogger("ray.train").setLevel(logging.WARNING)  # it tells of every checkpoint
    capture = OutputCapture(folder / OUTPUT)
    try:
        yield capture
        _report_rest(capture)
    except BaseException as error:
        if not is_stopped_by_tune(error):
            _report_rest(capture)
        raise
    finally:
        capture.close()
        if not local:
            folder.rmdir()


def _report_rest(capture: OutputCapture) -> None:
    if rest := capture.take(last=True):
        tune.report(rest)


def is_stopped_by_tune(error: BaseException) -> bool:
    """Whether an error is the exit that Tune raises in the report of a stopped trial."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    raised_by = frames[-1].f_globals.get("__name__", "")
    return isinstance(error, SystemExit) and str(raised_by).startswith("ray.")


def decode_output(content: bytes) -> str:
    """Decode what was printed, without what progress bars have drawn over."""
    return _OVERWRITTEN.sub("", content.decode(errors="replace").replace("\r\n", "\n"))


def read_both_ends(fd: int, start: int, end: int) -> bytes:
    """Read a part of a file; of a long one the beginning and the end, `MAX_REPORTED` bytes.

    Both consist of whole lines, if they have any: half a secret would not be known as one.
    """
    if end - start <= MAX_REPORTED:
        return os.pread(fd, end - start, start)
    half = MAX_REPORTED // 2
    first, last = os.pread(fd, half, start), os.pread(fd, half, end - half)
    first = first[: first.rfind(b"\n") + 1] or first
    last = last[last.find(b"\n") + 1 :] or last
    left_out = f"\n… {end - start - len(first) - len(last)} bytes left out …\n".encode()
    return first + left_out + last


def _open_stream(fd: int) -> TextIO:
    buffer = io.BufferedWriter(_DroppingFile(fd, "w", closefd=False))
    return io.TextIOWrapper(buffer, "utf-8", errors="backslashreplace", line_buffering=True)


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError, AttributeError):  # a method may have put another there
            stream.flush()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)  # native code writes to a file in blocks
