"""Hyperparameter searches and the leaderboard.

`__all__` is the public API, described in docs/api.md. Names are imported when they are first used,
so that `import cse_platform` imports neither Ray nor SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cse_platform.imports.runs import import_runs as import_runs
    from cse_platform.launch.start import run_sweep as run_sweep
    from cse_platform.leaderboard.api import Leaderboard as Leaderboard
    from cse_platform.leaderboard.api import open_leaderboard as open_leaderboard
    from cse_platform.leaderboard.records import Filters as Filters
    from cse_platform.runner.worker import trainable as trainable
    from cse_platform.sweep.file import load_sweep as load_sweep
    from cse_platform.sweep.spec import SweepSpec as SweepSpec
    from cse_platform.tracking.record import record as record

_HOMES = {
    "Filters": "leaderboard",
    "Leaderboard": "leaderboard",
    "SweepSpec": "sweep.spec",
    "import_runs": "imports.runs",
    "load_sweep": "sweep.file",
    "open_leaderboard": "leaderboard",
    "record": "tracking.record",
    "run_sweep": "launch.start",
    "trainable": "runner.worker",
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
