"""Hyperparameter searches and the leaderboard.

`__all__` is the public API, described in docs/api.md. Names are imported when they are first used,
so that `import cse_platform` imports neither Ray nor SQLAlchemy. The stub beside this file says
where each is.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_HOMES = {
    name: home for home, name in re.findall(r"^from cse_platform\.(\S+) import (\w+)", _STUB, re.M)
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
