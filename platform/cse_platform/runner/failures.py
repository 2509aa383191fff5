"""Why a trial failed, in one line: what was raised, and where in the method's own code."""

import re
from pathlib import PurePosixPath

from ray.exceptions import RayActorError, RayTaskError

from cse_methods.contract import Method
from cse_methods.errors import CseError
from cse_platform.errors import WorkerBusyError, WorkerLostError
from cse_platform.secrets import mask_text

_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+), in [^\n]*\n +([^\n]+)', re.M)


def is_crash(error: Exception) -> bool:
    """Whether a trial was ended from outside, and can go on from its last checkpoint elsewhere."""
    return isinstance(_cause(error), RayActorError | WorkerLostError | WorkerBusyError)


def one_line(error: Exception) -> str:
    """The first line of a worker's error, without Ray's own words and without secrets."""
    cause = _cause(error)
    line = mask_text((str(cause).strip().splitlines() or [""])[0])
    return line if isinstance(cause, CseError) else f"{type(cause).__name__}: {line}"


def with_own_line(error: Exception, traceback: str, method: Method) -> str:
    """The error in one line, with the last line of the method's own code: file, number, text.

    The file is named from its package on, since it may lie elsewhere on another machine. What we
    raise ourselves says what to do, and needs no place in the code.
    """
    said = one_line(error)
    found = None if isinstance(_cause(error), CseError) else _own_frame(traceback, method)
    return f"{said}, at {found}" if found else said


def _own_frame(traceback: str, method: Method) -> str | None:
    """`mixcse/method.py:41: z = a @ b`; None where no line of a traceback is of the method."""
    package, *inside = method.train.__module__.split(".")
    own = package if inside else f"{package}.py"
    for file, line, code in reversed(_FRAME.findall(traceback)):
        parts = PurePosixPath(file).parts
        if own in parts:
            place = "/".join(parts[len(parts) - 1 - parts[::-1].index(own) :])
            return mask_text(f"{place}:{line}: {code}")
    return None


def _cause(error: Exception) -> BaseException:
    return error.cause if isinstance(error, RayTaskError) else error
