"""Parts of other libraries that are not public, and that the platform needs: looked for at start.

Such a part can go with any version, and most are missed late or never. So each room that uses some
has a table of them, and a sweep is refused where one is missing.
"""

from collections.abc import Iterable
from functools import reduce
from importlib import import_module
from importlib.metadata import version
from inspect import unwrap
from typing import Any

from cse_platform.errors import SweepRefusedError


def refuse_missing_hooks(requirement: str, hooks: Iterable[str]) -> None:
    """Raise SweepRefusedError unless all of these parts of a library are there.

    Args:
        requirement: the versions that have them, as pip takes them.
        hooks: `module:name` or `module:Class.attribute`, where `__init__` may make the attribute.
    """
    missing = [hook for hook in hooks if not _is_there(hook)]
    if missing:
        library = requirement.partition(">=")[0]
        raise SweepRefusedError(
            f"{library} {version(library)} lacks what this version of cse-platform needs of it: "
            f"{', '.join(missing)}; pip install '{requirement}'"
        )


def _is_there(hook: str) -> bool:
    module, _, names = hook.partition(":")
    *owners, name = names.split(".")
    try:
        owner = reduce(getattr, owners, import_module(module))
    except (ImportError, AttributeError):
        return False
    return hasattr(owner, name) or name in _made_at_start(owner)


def _made_at_start(owner: Any) -> set[str]:
    """The names that the `__init__` of a class, or of one above it, uses."""
    starts = [vars(one).get("__init__") for one in getattr(owner, "__mro__", ())]
    codes = [unwrap(start).__code__ for start in starts if hasattr(start, "__code__")]
    return {name for code in codes for name in code.co_names}
