"""Sentence embeddings: methods that train encoders, and the scoring of encoders.

`__all__` is the public surface, and docs/api.md is its page. A name is imported when it is first
used, so that `import cse_methods` imports no torch. The stub beside this file says where each is.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text("utf-8")
HOMES = {
    name: home for home, name in re.findall(r"^from cse_methods\.(\S+) import (\w+)", _STUB, re.M)
}
__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
