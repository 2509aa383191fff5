"""Write to standard output and error: no text controls a terminal, and no work ends with one.

Texts come from anyone: errors, notes, names and settings of methods and of others' journals.
"""

import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from errno import EPIPE
from typing import Any, Literal, TextIO

import click

from cse_platform.errors import OutputError
from cse_platform.secrets import mask_text

_CONTROL = re.compile(
    "[\0-\x08\x0b\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)
"""What a terminal obeys instead of showing it, such as what turns the direction of text; line
breaks, tabs and form feeds are text.
"""


def escape_controls(text: str) -> str:
    """Escape the control characters of a text, as `\\x1b`, so that a terminal shows them."""
    return _CONTROL.sub(lambda character: ascii(character[0])[1:-1], text)


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, with control characters as escapes such as `\\x1b`.

    Raises OutputError if standard output does not take it.
    """
    with nullcontext() if err else lost_output_refused():
        click.echo(escape_controls(str(text)), err=err, nl=nl)  # noqa: TID251


@contextmanager
def lost_output_refused() -> Iterator[None]:
    """Raise OutputError if standard output cannot be written; click itself handles closed pipes."""
    try:
        yield
    except OSError as error:
        if error.errno == EPIPE:
            raise
        if (dropping := _make_dropping(sys.stdout)) is not None:
            sys.stdout = dropping  # because Python flushes it at the end
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


class EchoHandler(logging.Handler):
    """Prints messages on standard error, as Python does where there is no handler."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            echo(mask_text(self.format(record)), err=True)
        except Exception:  # as in Python's own handlers: a message that does not fit its values
            self.handleError(record)


class _DroppingFile(io.FileIO):
    """A file that discards what a full disk, a lost terminal or a closed pipe does not take."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError:
            return len(content)


def open_dropping(
    fd: int,
    *,
    encoding: str = "utf-8",
    errors: str | None = "backslashreplace",
    line_buffering: bool = True,
) -> TextIO:
    """Open a text stream on an open file descriptor; what cannot be written is discarded."""
    buffer = io.BufferedWriter(_DroppingFile(fd, "w", closefd=False))
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=line_buffering)


@contextmanager
def unwritable_dropped(*names: Literal["stdout", "stderr"]) -> Iterator[None]:
    """Discard what these streams of `sys` cannot write while the context is open.

    A stream that is not the process's own, such as a notebook's or a test's, stays as it is.
    """
    _replace_closed_streams()
    former = {name: getattr(sys, name) for name in names}
    dropping = {name: _make_dropping(stream) for name, stream in former.items()}
    for name, stream in dropping.items():
        setattr(sys, name, stream or former[name])
    try:
        yield
    finally:
        for name, stream in dropping.items():
            if stream is not None:
                stream.flush()
            setattr(sys, name, former[name])


def _replace_closed_streams() -> None:
    """Put the null device in place of standard streams that are closed, as schedulers do it."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # else another file would get this number
        os.set_inheritable(fd, True)
    os.close(fd)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, mode, errors="backslashreplace"))


def _make_dropping(stream: TextIO) -> TextIO | None:
    """Open the file of a stream of the process once more; None if it is another kind of stream."""
    if type(stream) is not io.TextIOWrapper:
        return None
    try:
        fd = stream.fileno()
    except OSError:  # a text in memory
        return None
    with suppress(OSError):
        stream.flush()
    return open_dropping(
        fd,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )


@unwritable_dropped("stdout")
def announce(stage: str, *, log: Literal["stdout", "stderr"] | None = None) -> None:
    """Print on a terminal what the command is doing now.

    Without a terminal, commands that run for long print it to `log`, which would otherwise stay
    empty; other commands are quiet.
    """
    if sys.stderr.isatty() or log is not None:
        echo(f"{mask_text(stage)}…", err=sys.stderr.isatty() or log == "stderr")
