"""Describe in one line why a trial failed: the error, and the line of the method that raised it.

A worker reports its method's error as text. It does not send the exception, because exceptions
travel as pickles, and unpickling runs arbitrary code. A worker that ends without a report was
killed from outside.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from traceback import format_exception
from typing import Literal

from ray.exceptions import RayTaskError

from cse_methods.contract import Method
from cse_methods.errors import CseError
from cse_platform.render.formats import cut_line
from cse_platform.runner.reports import RaisedError
from cse_platform.secrets import escape_text, mask_text

_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in [^\n]*\n +([^\n]+)', re.M)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ATTEMPT = re.compile(r"^Failure # \d+ \(occurred at .*\)$", re.M)
"""The line that precedes each error in the file where Ray collects a trial's errors."""
_IN_A_TASK = "ray::"
"""The prefix of Ray's tracebacks of errors in a worker."""


End = Literal["error", "crash", "limit"]
"""What ended a trial: an error in its method, the death of its process, or a time limit, at which
its process was killed. After the latter two it can resume elsewhere from its last checkpoint."""


@dataclass(frozen=True)
class Failure:
    """Why a trial ended early; secrets are masked."""

    said: str
    """The reason in one line, truncated if very long; `traceback` has all of it."""
    traceback: str
    end: End


def report_of(error: BaseException) -> RaisedError:
    """Make the report in which a worker tells the driver of an error that its method raised."""
    return RaisedError(
        said=one_line(error),
        says_what_to_do=isinstance(error, CseError),
        traceback=escape_text("".join(format_exception(error))),
    )


def failure_from_report(report: RaisedError, method: Method) -> Failure:
    """Make a failure from a worker's report, as made by `report_of`."""
    said, traceback = cut_line(clean_text(report.said)), clean_text(report.traceback)
    if not report.says_what_to_do:
        said = _append_frame(said, traceback, method)
    return Failure(said, traceback, end="error")


def failure_without_report(text: str) -> Failure:
    """Make the failure of a trial whose worker died unreported; `text` is Ray's error file."""
    traceback = clean_text(_ATTEMPT.split(text)[-1].strip())
    lines = traceback.splitlines() or ["it left no error"]
    said = lines[-1 if lines[0].startswith(_IN_A_TASK) else 0]
    return Failure(cut_line(said), traceback, end="crash")


def one_line(error: BaseException) -> str:
    """Return the first line of a worker's error, without Ray's wrapping and without secrets."""
    cause = _unwrap_cause(error)
    if isinstance(cause, SystemExit):
        return f"the method ended its process, by sys.exit({_read_message(cause)})"
    line = cut_line(mask_text((_read_message(cause).strip().splitlines() or [""])[0]))
    return line if isinstance(cause, CseError) else f"{type(cause).__name__}: {line}"


def _read_message(error: BaseException) -> str:
    """Return the text of an error, or say why its class cannot produce one."""
    try:
        return str(error)
    except Exception as problem:
        return f"its message cannot be read, because of {type(problem).__name__}"


def format_error_with_location(error: Exception, traceback: str, method: Method) -> str:
    """Format an error in one line, with the last traceback line in the method's own code.

    The line's file is relative to the method's package, because paths differ between machines. A
    `CseError` gets no code line, because its message already says what to do.
    """
    said = one_line(error)
    return (
        said
        if isinstance(_unwrap_cause(error), CseError)
        else _append_frame(said, traceback, method)
    )


def _append_frame(said: str, traceback: str, method: Method) -> str:
    frame = _find_own_frame(traceback, method)
    return f"{said}, at {frame}" if frame else said


def _find_own_frame(traceback: str, method: Method) -> str | None:
    """Find the last line of a traceback in the method's package: `mixcse/method.py:41: z = a @ b`.

    Returns None if no line is in that package.
    """
    package, *inside = method.train.__module__.split(".")
    own = package if inside else f"{package}.py"
    for file, line, code in reversed(_FRAME.findall(traceback)):
        parts = PurePosixPath(file).parts
        if own in parts:
            shown = "/".join(parts[len(parts) - 1 - parts[::-1].index(own) :])
            return cut_line(mask_text(f"{shown}:{line}: {code}"))
    return None


def clean_text(text: str) -> str:
    """Mask secrets, and remove colour codes that Ray or a method adds."""
    return mask_text(_COLOUR.sub("", text))


def _unwrap_cause(error: BaseException) -> BaseException:
    return error.cause if isinstance(error, RayTaskError) else error
