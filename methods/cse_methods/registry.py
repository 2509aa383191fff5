"""Methods by name. The folder `papers/` is the catalogue; third parties use entry points."""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import TypeVar

from cse_methods import papers
from cse_methods.contract import Method, MethodConfig, Paper, PublishedSettings, Run
from cse_methods.errors import UnknownMethodError, nearest_hint

ENTRY_POINT_GROUP = "cse.methods"

_METHODS: dict[str, Method] = {}

Config = TypeVar("Config", bound=MethodConfig)
Train = Callable[[Config, Run], dict[str, float]]


def register(
    name: str,
    *,
    config: type[Config],
    paper: Paper,
    revision: int,
    published: Sequence[PublishedSettings] = (),
) -> Callable[[Train[Config]], Train[Config]]:
    """Enter the decorated `train(config, run)` into the registry under `name`.

    Args:
        name: as it stands in a sweep file; the name of the file that registers it.
        config: the settings of the method, with bounds.
        paper: where the method comes from.
        revision: raised when the method's numbers change, so that old rows are not reused.
        published: the paper's own settings, for start points.

    Raises:
        ValueError: if another function holds the name.
    """

    def enter(train: Train[Config]) -> Train[Config]:
        if name in _METHODS and (holder := _place(_METHODS[name].train)) != _place(train):
            raise ValueError(
                f"method {name!r} is registered already, by {holder}; choose another name"
            )
        _METHODS[name] = Method(name, config, paper, revision, train, tuple(published))
        return train

    return enter


def available_methods() -> list[str]:
    """Names of all methods, without importing any of them (and so without importing torch)."""
    return sorted(_own() | set(_third_party()))


def get_method(name: str) -> Method:
    """The method of that name, imported now if it was not before.

    A method of ours wins over an entry point of the same name, so that no package that happens to
    be installed changes what a name means.

    Raises:
        UnknownMethodError: names the nearest method and all known ones; or the entry point, if it
            cannot be loaded or does not register the method.
    """
    if name in _METHODS:
        return _METHODS[name]
    names = available_methods()
    if name not in names:
        hint = nearest_hint(name, names)
        raise UnknownMethodError(f"no method {name!r}.{hint} Known: {', '.join(names)}")
    if name in _own():
        import_module(f"{papers.__name__}.{name}")
    else:
        _load(_third_party()[name])
    return _METHODS[name]


def _own() -> set[str]:
    return {module.name for module in iter_modules(papers.__path__)}


def _third_party() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _load(entry: EntryPoint) -> None:
    try:
        entry.load()
    except (ImportError, AttributeError) as problem:
        raise UnknownMethodError(
            f"method {entry.name!r}: its entry point {entry.value!r} cannot be loaded: {problem}"
        ) from problem
    if entry.name not in _METHODS:
        raise UnknownMethodError(
            f"method {entry.name!r}: its entry point {entry.value!r} does not register it"
        )


def _place(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
