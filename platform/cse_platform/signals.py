"""Make Ctrl-C and SIGTERM end a sweep gracefully, so that the same command resumes it."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType

PATIENCE = 25.0
"""Seconds after a SIGTERM, or after its grace period, until the process is ended by force."""
PATIENCE_AT_START = 3.0
"""Seconds after a Ctrl-C while a sweep starts, until the process is ended by force."""
REPEAT = 0.05
"""Seconds after which an interrupt that was lost in a finalizer is repeated."""
INTERRUPTED = "Interrupted; the same command goes on from here."

_terminated = threading.Event()
_starts: list[object] = []
"""The blocks of code that are running and that a Ctrl-C soon ends by force, the outermost first."""


class Grace:
    """The grace period that a block of code has after a SIGTERM, before it interrupts itself."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_over = False
        """Whether the block was interrupted."""
        self._ends: float | None = None

    def begin(self) -> bool:
        """Begin at a SIGTERM. Returns False if the period is zero or began at an earlier one."""
        if self._ends is not None or not self.seconds:
            return False
        self._ends = time.monotonic() + self.seconds
        return True

    @property
    def has_begun(self) -> bool:
        """Whether a SIGTERM has arrived."""
        return self._ends is not None

    @property
    def has_passed(self) -> bool:
        """Whether the period is over."""
        return self._ends is not None and time.monotonic() > self._ends

    def end(self) -> None:
        """Do what Ctrl-C does, but only once."""
        if not self.is_over:
            self.is_over = True
            interrupt()


_graces: list[Grace] = []
"""The grace periods of the blocks that are running; empty if SIGTERM interrupts at once."""


@contextmanager
def grace_after_sigterm(seconds: float) -> Iterator[Grace]:
    """Make a first SIGTERM only begin the grace period; the block itself must call its `end`.

    A second SIGTERM interrupts at once, and so does leaving the block after a SIGTERM.
    """
    grace = Grace(seconds)
    _graces.append(grace)
    try:
        yield grace
    finally:
        _graces.remove(grace)
    if grace.has_begun:
        grace.end()


def interrupt_on_sigterm() -> None:
    """Make SIGTERM, which a preempted job gets, do what Ctrl-C does from now on.

    Call this again after code that sets its own handler, as Ray does.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _handle_sigterm)
        sys.unraisablehook = _repeat_interrupt
        for handler in filter(None, [logging.lastResort, *logging.root.handlers]):
            handler.addFilter(_is_not_interrupt)
        _watch_signals()


def ignore_both() -> None:
    """Ignore Ctrl-C and SIGTERM, so that cleaning up is not interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def exit_code() -> int:
    """Return the exit code of a command that a signal ended: 143 after SIGTERM, else 130."""
    return 128 + (signal.SIGTERM if _terminated.is_set() else signal.SIGINT)


def interrupt() -> None:
    """Do what Ctrl-C does, in the main thread."""
    if not callable(signal.getsignal(signal.SIGINT)):  # ignored in a script's background job
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _handle_sigterm(_number: int, _frame: FrameType | None) -> None:
    _terminated.set()
    if not (_graces and _graces[-1].begin()):
        interrupt()


def _repeat_interrupt(lost: "sys.UnraisableHookArgs") -> None:
    """Repeat a KeyboardInterrupt that was raised in a finalizer, where Python only prints it.

    A thread repeats it, because this hook is called where it would be dropped again.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        main = threading.main_thread().ident
        threading.Timer(REPEAT, signal.pthread_kill, [main, signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


def _is_not_interrupt(record: logging.LogRecord) -> bool:
    """Whether a log record is about anything but a KeyboardInterrupt.

    If one is raised while a connection closes, SQLAlchemy logs it with a traceback and reraises it.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


@contextmanager
def interrupt_handler_kept() -> Iterator[None]:
    """Restore the handler of Ctrl-C at the end, whatever the block installs."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@cache
def _watch_signals() -> None:
    """Watch for SIGTERM and Ctrl-C in a thread; done once per process.

    The driver may be blocked in a call to a process of Ray that hangs, or that got the signal too
    and is gone; then no Python handler runs. The signal's number is written to this pipe all the
    same.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_patience, args=[read], daemon=True).start()


def _end_after_patience(pipe: int) -> None:
    interrupted: object = None
    while True:
        number, start = os.read(pipe, 1)[0], next(iter(_starts), None)
        if number == signal.SIGTERM:
            patience = PATIENCE + sum(grace.seconds for grace in _graces)
            threading.Timer(patience, _end_by_force, [number]).start()
        elif number == signal.SIGINT and start is not None:
            patience = 0.0 if start is interrupted else PATIENCE_AT_START
            threading.Timer(patience, _end_by_force, [number, start]).start()
            interrupted = start


def _end_by_force(number: int, start: object = None) -> None:
    """End the process and those that it has started, unless the block that was to end has ended."""
    import psutil  # only needed here

    if start is not None and start not in _starts:
        return
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    with suppress(OSError):  # the terminal may be gone
        os.write(sys.stderr.fileno(), f"{INTERRUPTED}\n".encode())
    os._exit(exit_code() if number == signal.SIGINT else 128 + number)


@contextmanager
def interrupts_enforced() -> Iterator[None]:
    """End the process by force if the block goes on for `PATIENCE_AT_START` after a Ctrl-C.

    A second Ctrl-C ends it at once. This is for the start of a sweep: Ray and libraries that are
    being imported can block for minutes, and nothing is lost that a kill would not lose.
    """
    start = object()
    _starts.append(start)
    try:
        yield
    finally:
        _starts.remove(start)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Delay a first Ctrl-C or SIGTERM until the end of the block, as `interrupts_enforced` allows.

    Starting Ray forks and imports; a KeyboardInterrupt raised in one of Python's own hooks there
    would be printed and lost.
    """
    heard = threading.Event()

    def hear(_number: int, _frame: FrameType | None) -> None:
        heard.set()
        signal.signal(signal.SIGINT, before)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, hear)
    try:
        with interrupts_enforced():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard.is_set():
        raise KeyboardInterrupt
