"""Find methods of other packages by entry points, load them, and blame errors on file and line."""

import traceback
from importlib.metadata import EntryPoint, entry_points

from cse_methods.errors import BrokenMethodError

ENTRY_POINT_GROUP = "cse.methods"


def outside_methods() -> dict[str, list[EntryPoint]]:
    """List the entry points that claim each method, by its name. Imports nothing."""
    entries = entry_points(group=ENTRY_POINT_GROUP)
    return {name: [*entries.select(name=name)] for name in sorted(entries.names)}


def package_of(entry: EntryPoint) -> str:
    """Name the package that an entry point came with, and its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed package"


def load(entries: list[EntryPoint]) -> None:
    """Import the module of the one package that claims a method.

    BrokenMethodError if several packages claim it, or the import raises anything at all.
    """
    entry, *others = entries
    if others:
        packages = " and ".join(map(package_of, entries))
        raise BrokenMethodError(
            f"method {entry.name!r} is claimed by {packages}; uninstall all but one"
        )
    try:
        entry.load()
    except (Exception, SystemExit) as problem:
        raise BrokenMethodError(
            f"method {entry.name!r}: its entry point {entry.value!r} of {package_of(entry)} cannot "
            f"be loaded: {blame(problem, entry.value)}"
        ) from problem


def blame(problem: BaseException, module: str) -> str:
    """Describe an error in one line, after the last file and line of its package in the traceback.

    Args:
        problem: what was raised.
        module: the name of a module of that package.
    """
    text = " ".join(str(problem.msg if isinstance(problem, SyntaxError) else problem).split())
    what = f"{type(problem).__name__}: {text}" if text else type(problem).__name__
    if isinstance(problem, SyntaxError) and problem.filename:
        return f"{problem.filename}, line {problem.lineno}: {what}"
    package = module.partition(":")[0].partition(".")[0]
    for frame, line in reversed(list(traceback.walk_tb(problem.__traceback__))):
        if str(frame.f_globals.get("__name__")).partition(".")[0] == package:
            return f"{frame.f_code.co_filename}, line {line}: {what}"
    return what
