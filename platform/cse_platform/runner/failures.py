"""Describe in one line why a trial failed: the error, and the line of the method that raised it.

A worker reports its method's error as text. It does not send the exception, because exceptions
travel as pickles, and unpickling runs arbitrary code. How a worker ended that sent no report is
known from what it has printed, and from what Ray says.
"""

import linecache
import re
import sys
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from traceback import format_exception
from typing import Literal

from ray.exceptions import RayTaskError

from cse_methods.contract import Method
from cse_methods.errors import CseError, DivergenceError
from cse_platform.runner.report_messages import RaisedError
from cse_platform.secrets import mask_text

_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in [^\n]*\n +([^\n]+)', re.M)
_FATAL_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+) in ', re.M)
"""A line of the stack that Python prints when native code fails, the most recent call first."""
_FATAL = re.compile(r"^\*\*\* (SIG\w+) received at ", re.M)
"""The line that Ray prints in a worker before such a stack."""
_EXIT_CODE = re.compile(r"exits with an exit code (\d+)")
_WORKER_DIED = "because its worker process has died"
_UNREACHABLE = re.compile(r"^The actor \w+ is unavailable: ", re.M)
"""How Ray begins the error of a process whose connection broke before its end was known."""
_LAST_LINES = 50
_LINE_LENGTH = 1000
"""Maximum length of a line of foreign text in characters; longer lines are cut."""
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ATTEMPT = re.compile(r"^Failure # \d+ \(occurred at .*\)$", re.M)
"""The line that precedes each error in the file where Ray collects a trial's errors."""


End = Literal["error", "divergence", "crash", "limit"]
"""What ended a trial: an error in its method, a loss that is no longer a number, the death of its
process, or a time limit, at which its process was killed. After the latter two it can resume
elsewhere from its last checkpoint."""


@dataclass(frozen=True)
class Failure:
    """Why a trial ended early; secrets are masked."""

    message: str
    """The reason in one line, truncated if very long; `traceback` has all of it."""
    traceback: str
    end: End


def keep_source_lines(method: Method) -> None:
    """Let tracebacks quote the lines of the method's package that this process has loaded.

    Without it they quote those of its files when it fails, which a person may have edited by then.
    """
    package = method.train.__module__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name.partition(".")[0] == package:
            lines = linecache.getlines(file)
            # Entries without a time of change stay, even if the file changes.
            linecache.cache[file] = (sum(map(len, lines)), None, lines, file)


def report_of(error: BaseException) -> RaisedError:
    """Make the report in which a worker tells the driver of an error that its method raised.

    Ray writes reports to its own files, so secrets are masked already here.
    """
    return RaisedError(
        message=one_line(error),
        says_what_to_do=isinstance(error, CseError),
        diverged=isinstance(error, DivergenceError),
        traceback=clean_text("".join(format_exception(error))),
    )


def failure_from_report(report: RaisedError, method: Method) -> Failure:
    """Make a failure from a worker's report, as made by `report_of`.

    Unless the error says what to do, the last traceback line in the method's package follows, as in
    `mixcse/method.py:41: z = a @ b`: relative, because paths differ between machines. Of a `raise`,
    only the place, because the message says the rest.
    """
    message, traceback = _cut_line(clean_text(report.message)), clean_text(report.traceback)
    if not report.says_what_to_do:
        frames = reversed(_FRAME.findall(traceback))
        located = ((_find_in_package(file, method), line, code) for file, line, code in frames)
        for file, line, code in (frame for frame in located if frame[0]):
            shown = f"{file}:{line}" + f": {code}" * (not code.startswith("raise "))
            message += f", at {_cut_line(mask_text(shown))}"
            break
    return Failure(message, traceback, end="divergence" if report.diverged else "error")


def failure_without_report(text: str, printed: str, method: Method) -> Failure:
    """Make the failure of a trial whose worker died unreported.

    Args:
        text: Ray's error file.
        printed: the output of that worker, as far as it is known.
        method: the trial's method.
    """
    traceback = clean_text(_ATTEMPT.split(text)[-1].strip())
    lines = traceback.splitlines() or ["it left no error"]
    line = lines[-1 if lines[0].startswith("ray::") else 0]  # a traceback, or an error of Ray's own
    if _WORKER_DIED in traceback or _UNREACHABLE.search(traceback):
        line = _describe_death(traceback, printed, method)
    return Failure(_cut_line(line), traceback, end="crash")


def with_last_lines(failure: Failure, printed: str) -> Failure:
    """Append the last lines of a trial's output to its traceback."""
    if not (last := printed.rstrip().splitlines()[-_LAST_LINES:]):
        return failure
    shown = "\n".join(map(_cut_line, last))
    traceback = f"{failure.traceback.rstrip()}\n\nThe last lines that it printed:\n{shown}"
    return replace(failure, traceback=traceback)


def _describe_death(traceback: str, printed: str, method: Method) -> str:
    """Describe by which signal or exit code a worker ended, and the last line that it printed."""
    own, fatal = printed, [*_FATAL.finditer(printed)]
    if fatal:
        own, stack = printed[: fatal[0].start()], printed[fatal[-1].end() :]
        frames = ((_find_in_package(f, method), line) for f, line in _FATAL_FRAME.findall(stack))
        location = next((f", at {file}:{line}" for file, line in frames if file), "")
        ended = f"ended by {fatal[-1][1]}{location}"
    elif "SIGTERM" in traceback:
        ended = "was ended by SIGTERM"
    elif _UNREACHABLE.search(traceback):
        ended = "was killed, or its machine can no longer be reached"
    elif code := _EXIT_CODE.search(traceback):
        ended = f"ended with exit code {code[1]}"
    else:
        ended = (
            "ended without saying why: it was killed (SIGKILL, as when memory runs out), or it "
            "left by os._exit or in native code, whose exit status Ray does not report"
        )
    last = next((line.strip() for line in reversed(own.splitlines()) if line.strip()), None)
    return f"its process {ended}; it printed " + ("nothing" if last is None else f"last: {last}")


def one_line(error: BaseException) -> str:
    """Return the first line of a worker's error, without Ray's wrapping and without secrets."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    try:
        text = str(cause)
    except Exception as problem:  # whatever the error's class does wrong
        text = f"its message cannot be read, because of {type(problem).__name__}"
    line = _cut_line(mask_text((text.strip().splitlines() or [""])[0]))
    if isinstance(cause, SystemExit):
        return f"the method ended its process, by sys.exit({line})"
    return line if isinstance(cause, CseError) else f"{type(cause).__name__}: {line}"


def _find_in_package(file: str, method: Method) -> str | None:
    """Return the path of a file in the method's package; None if it is in another one."""
    package, *inside = method.train.__module__.split(".")
    own, parts = package if inside else f"{package}.py", PurePosixPath(file).parts
    if own not in parts:
        return None
    return "/".join(parts[len(parts) - 1 - parts[::-1].index(own) :])


def clean_text(text: str) -> str:
    """Mask secrets, and remove colour codes that Ray or a method adds."""
    return mask_text(_COLOUR.sub("", text))


def _cut_line(text: str) -> str:
    """Cut a long line to its head, the number of omitted characters, and its tail."""
    if len(text) <= _LINE_LENGTH:
        return text
    head, tail = text[: _LINE_LENGTH // 2], text[-_LINE_LENGTH // 4 :]
    return f"{head} … ({len(text) - len(head) - len(tail):,} characters left out) … {tail}"
