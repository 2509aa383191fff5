"""Lets Ctrl-C and SIGTERM end a sweep softly, so that the same command goes on from there."""

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
"""Seconds from a SIGTERM, or the end of its grace, to the end at the latest."""
REPEAT = 0.05
"""Seconds after which an interrupt that was lost in a finaliser is repeated."""
INTERRUPTED = "Interrupted; the same command goes on from here."

_terminated = threading.Event()


class Grace:
    """The time that a block of code has after a SIGTERM, before it interrupts itself."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_over = False
        """Whether the block was interrupted."""
        self._ends: float | None = None

    def begin(self) -> bool:
        """Note that SIGTERM came. Returns False if there is no time, or has been another one."""
        if self._ends is not None or not self.seconds:
            return False
        self._ends = time.monotonic() + self.seconds
        return True

    @property
    def has_begun(self) -> bool:
        """Whether SIGTERM came."""
        return self._ends is not None

    @property
    def has_passed(self) -> bool:
        """Whether no time is left."""
        return self._ends is not None and time.monotonic() > self._ends

    def end(self) -> None:
        """Do what Ctrl-C does, once."""
        if not self.is_over:
            self.is_over = True
            interrupt()


_graces: list[Grace] = []
"""That of the block that runs; empty where SIGTERM interrupts at once."""


@contextmanager
def grace_after_sigterm(seconds: float) -> Iterator[Grace]:
    """Let a first SIGTERM only begin the grace that is yielded; the block then calls its `end`.

    A second one interrupts at once, and so does the end of the block, if a SIGTERM came.
    """
    grace = Grace(seconds)
    _graces.append(grace)
    try:
        yield grace
    finally:
        _graces.remove(grace)
    if grace.has_begun:
        grace.end()


def heed_sigterm() -> None:
    """Let SIGTERM, which a preempted job gets, do what Ctrl-C does from now on.

    Whatever sets a handler of its own later, as Ray does, has to be followed by another call.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _handle_sigterm)
        sys.unraisablehook = _repeat_interrupt
        for handler in filter(None, [logging.lastResort, *logging.root.handlers]):
            handler.addFilter(_is_no_interrupt)
        _watch_for_sigterm()


def ignore_both() -> None:
    """Ignore Ctrl-C and SIGTERM, so that tidying up comes to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def exit_code() -> int:
    """Exit code of a command that a signal has ended, as in shells: 143 for SIGTERM, else 130."""
    return 128 + (signal.SIGTERM if _terminated.is_set() else signal.SIGINT)


def interrupt() -> None:
    """Do what Ctrl-C does, in the main thread."""
    if not callable(signal.getsignal(signal.SIGINT)):  # a script's background job ignores it
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _handle_sigterm(_number: int, _frame: FrameType | None) -> None:
    _terminated.set()
    if not (_graces and _graces[-1].begin()):
        interrupt()


def _repeat_interrupt(lost: "sys.UnraisableHookArgs") -> None:
    """Repeat a KeyboardInterrupt that hit a finaliser, where Python would print and drop it.

    It is repeated from a thread, because this hook's own caller would drop it once more.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        main = threading.main_thread().ident
        threading.Timer(REPEAT, signal.pthread_kill, [main, signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(lost)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a log record is about anything but a KeyboardInterrupt.

    SQLAlchemy logs one that hits the closing of a connection, with a traceback, and reraises it.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


@contextmanager
def interrupt_handler_kept() -> Iterator[None]:
    """Put the handler of Ctrl-C back at the end, whatever the block sets in its place."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@cache
def _watch_for_sigterm() -> None:
    """Watch for SIGTERM in a thread, once a process.

    Where Ray's processes get the signal too, the driver can be in a call to one that is gone. No
    handler in Python runs then, but the signal's number is written to this pipe all the same.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_end_after_patience, args=[read], daemon=True).start()


def _end_after_patience(heard: int) -> None:
    import psutil  # most commands need none of this

    while os.read(heard, 1)[0] != signal.SIGTERM:
        pass
    threading.Event().wait(PATIENCE + sum(grace.seconds for grace in _graces))
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    os.write(sys.stderr.fileno(), f"{INTERRUPTED}\n".encode())
    os._exit(128 + signal.SIGTERM)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Let a first Ctrl-C or SIGTERM take effect at the end of the block.

    Ray's start forks and loads; a KeyboardInterrupt that hits one of Python's own hooks there
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
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard.is_set():
        raise KeyboardInterrupt
