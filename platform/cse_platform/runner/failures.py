"""Describes in one line why a trial failed: the error, and where in the method's own code.

A worker reports as text what its method raised; one that ends without a report was ended from
outside. It is text because an exception comes as a pickle, and reading a pickle runs whatever its
writer wants.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from traceback import format_exception
from typing import Any, Literal

from ray.exceptions import RayTaskError

from cse_methods.contract import Method
from cse_methods.errors import CseError
from cse_platform.render.formats import cut_line
from cse_platform.secrets import mask_text

_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in [^\n]*\n +([^\n]+)', re.M)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ATTEMPT = re.compile(r"^Failure # \d+ \(occurred at .*\)$", re.M)
"""The line before each error of a trial in Ray's file of their texts."""
_IN_A_TASK = "ray::"
"""The beginning of Ray's tracebacks of errors in a worker."""


End = Literal["error", "crash", "limit"]
"""What ended a trial: its method raised an error, its process died, or it exceeded a limit of time
and its process was killed. After the latter two it can go on from its last checkpoint elsewhere."""


@dataclass(frozen=True)
class Failure:
    """Why a trial ended early, without secrets."""

    said: str
    """The reason in one line, cut if it is very long; the traceback has all of it."""
    traceback: str
    end: End


def report_of(error: BaseException) -> dict[str, Any]:
    """Make a worker's report to the driver of an error that its method has raised."""
    return {
        "said": one_line(error),
        "says_what_to_do": isinstance(error, CseError),
        "traceback": "".join(format_exception(error)),
    }


def is_report_of_failure(report: Mapping[str, Any]) -> bool:
    """Whether something that a worker has sent was made by `report_of`."""
    return report.keys() >= {"said", "says_what_to_do", "traceback"}


def failure_from_report(report: Mapping[str, Any], method: Method) -> Failure:
    """Make a failure from a worker's report, which `report_of` has made."""
    said, traceback = (
        cut_line(clean_text(str(report["said"]))),
        clean_text(str(report["traceback"])),
    )
    if not report["says_what_to_do"]:
        said = _append_frame(said, traceback, method)
    return Failure(said, traceback, end="error")


def failure_without_report(text: str) -> Failure:
    """Make the failure of a trial whose worker died without a report; `text` is Ray's own text."""
    traceback = clean_text(_ATTEMPT.split(text)[-1].strip())
    lines = traceback.splitlines() or ["it left no error"]
    said = lines[-1 if lines[0].startswith(_IN_A_TASK) else 0]
    return Failure(cut_line(said), traceback, end="crash")


def one_line(error: BaseException) -> str:
    """Return the first line of a worker's error, without Ray's own words and without secrets."""
    cause = _unwrap_cause(error)
    if isinstance(cause, SystemExit):
        return f"the method ended its process, by sys.exit({_read_message(cause)})"
    line = cut_line(mask_text((_read_message(cause).strip().splitlines() or [""])[0]))
    return line if isinstance(cause, CseError) else f"{type(cause).__name__}: {line}"


def _read_message(error: BaseException) -> str:
    """Return the text of an error, or why its own class fails to make one."""
    try:
        return str(error)
    except Exception as problem:
        return f"its message cannot be read, because of {type(problem).__name__}"


def with_own_line(error: Exception, traceback: str, method: Method) -> str:
    """Format an error in one line, with the last line of the method's own code: file, number, text.

    The file is named from its package on, since it may lie elsewhere on another machine. What we
    raise ourselves says what to do, and needs no place in the code.
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
    """Find the traceback's last line in the method, as `mixcse/method.py:41: z = a @ b`.

    Returns None if no line is in the method's package.
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
    """Remove secrets, and the colours that Ray or a method adds."""
    return mask_text(_COLOUR.sub("", text))


def _unwrap_cause(error: BaseException) -> BaseException:
    return error.cause if isinstance(error, RayTaskError) else error
