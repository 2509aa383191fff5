"""Methods by name. The folder `papers/` is the catalogue; third parties use entry points."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

from cse_methods import papers
from cse_methods.config import MethodConfig
from cse_methods.contract import Method, Paper, PublishedSettings, Run
from cse_methods.entry_points import load, outside_methods, package_of
from cse_methods.errors import BrokenMethodError, UnknownMethodError, nearest_hint
from cse_methods.published.tables import paper_of, published_settings

_METHODS: dict[str, Method] = {}

Config = TypeVar("Config", bound=MethodConfig)
Train = Callable[[Config, Run], dict[str, float]]


def register(
    name: str,
    *,
    config: type[Config],
    revision: int,
    paper: Paper | None = None,
    published: Sequence[PublishedSettings] = (),
) -> Callable[[Train[Config]], Train[Config]]:
    """Enter the decorated `train(config, run)` into the registry under `name`.

    Where the registry's method trains, Python's and NumPy's random numbers follow from `run.seed`.

    Args:
        name: as it stands in a sweep file; the name of the file that registers it.
        config: the settings of the method, with bounds.
        revision: raised when the method's numbers change, so that old rows are not reused.
        paper: where the method comes from; of the methods of this package, their row of
            `published/papers.csv`.
        published: the paper's own settings, for start points; of the methods of this package, the
            table of their name in `published/`.

    Raises:
        TypeError: if the settings, the paper or the revision is of another type.
        ValueError: if another function holds the name, or it is one of our own methods'.
    """

    def enter(train: Train[Config]) -> Train[Config]:
        enter_method(name, config, train, paper=paper, revision=revision, published=published)
        return train

    return enter


def enter_method(
    name: str,
    config: type[MethodConfig],
    train: Callable[[Any, Run], dict[str, float]],
    *,
    paper: Paper | None,
    revision: int,
    published: Sequence[PublishedSettings],
    build: Callable[..., Any] | None = None,
) -> None:
    """Enter a method into the registry, its training seeded by `run.seed`; raises as `register`."""
    if not (isinstance(config, type) and issubclass(config, MethodConfig)):
        raise TypeError(f"config must be a subclass of MethodConfig, got {config!r}")
    if name in own_methods():
        if train.__module__ != f"{papers.__name__}.{name}":
            raise ValueError(f"method {name!r} is a built-in one; choose another name")
        paper, published = paper_of(name), published_settings(name)
    if not isinstance(paper, Paper):
        raise TypeError(f"paper must be a Paper, got {paper!r}")
    if not isinstance(revision, int):
        raise TypeError(f"revision must be a whole number, got {revision!r}")
    holder = _name_function(_METHODS[name].train) if name in _METHODS else None
    if holder not in (None, _name_function(train)):
        raise ValueError(f"method {name!r} is registered already, by {holder}; choose another name")

    @wraps(train)
    def train_seeded(config: Any, run: Run) -> dict[str, float]:
        from cse_methods.randomness import seeded  # NumPy; names need none

        with seeded(run.seed):
            return train(config, run)

    _METHODS[name] = Method(name, config, paper, revision, train_seeded, tuple(published), build)


def available_methods() -> list[str]:
    """List the names of all methods without importing them, and so without importing torch."""
    return sorted(own_methods() | outside_methods().keys())


def own_methods() -> set[str]:
    """List the names of the methods of this package."""
    return {module.name for module in iter_modules(papers.__path__)}


def get_method(name: str) -> Method:
    """Return the method of that name, which is imported if it was not before.

    A method of ours wins over an entry point of the same name, so that no package that happens to
    be installed changes what a name means; `unused_claims` reports it.

    Raises:
        UnknownMethodError: names the nearest method and all known ones.
        BrokenMethodError: names the entry point that cannot be loaded or does not register the
            method, with the file and line to blame.
    """
    if name in _METHODS:
        return _METHODS[name]
    names = available_methods()
    if name not in names:
        hint = nearest_hint(name, names)
        raise UnknownMethodError(
            f"no method {name!r}.{hint} Known: {', '.join(names)}; or one of your own, once its "
            "package is installed"
        )
    if name in own_methods():
        import_module(f"{papers.__name__}.{name}")
        return _METHODS[name]
    entries, before = outside_methods()[name], dict(_METHODS)
    try:
        load(entries)
    except BrokenMethodError:
        # What it registered before it broke would be taken for whole the next time.
        _METHODS.clear()
        _METHODS.update(before)
        raise
    if name not in _METHODS:
        raise BrokenMethodError(
            f"method {name!r}: its entry point {entries[0].value!r} of {package_of(entries[0])} "
            "does not register it"
        )
    return _METHODS[name]


def unused_claims(names: Iterable[str] | None = None) -> list[str]:
    """Describe each entry point that claims the name of one of our own methods, in a sentence.

    Args:
        names: only claims of these; None is all.
    """
    wanted = own_methods() if names is None else own_methods() & set(names)
    return [
        f"method {entry.name!r} is the built-in one, not {entry.value!r} of {package_of(entry)}; "
        "give that method another name"
        for name, entries in sorted(outside_methods().items())
        for entry in entries
        if name in wanted
    ]


def _name_function(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
