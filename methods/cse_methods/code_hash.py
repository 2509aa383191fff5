"""The code that a method's numbers follow from, as hashes.

It is the module that registers the method, with all that this imports from its own distribution and
from the rooms of this package that turn settings and data into numbers. The sources are not
imported but read. Comments, docstrings and layout have no effect on a hash.
"""

import ast
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import cse_methods
from cse_methods.contract import Method
from cse_methods.files.text import FileVersion, file_sha256, file_version
from cse_methods.registry import get_method

ROOMS = (
    *("papers", "losses", "augmentation", "training", "encoders", "metrics", "transfer"),
    *("sentence_transformers_trainer", "referenced_tasks", "data.language", "randomness"),
)
"""The parts of this package that a trial's numbers follow from. The trial's key covers all else by
its content: settings with their defaults, sentences as they are read, gold scores, weights."""

_OURS = cse_methods.__name__
_OUR_ROOT = Path(cse_methods.__file__).parents[1]


def code_hashes(method: Method) -> dict[str, str]:
    """Hash, in hex digits, each module that a method's numbers follow from, by its name.

    Those of the methods that it stands on are among them, and files beside a module that it names
    in a string, such as a table that it reads, by `MODULE/FILE`. It is empty where the source
    cannot be read, as of a method that was typed into an interpreter.
    """
    hashes = dict[str, str]()
    try:
        for start in _list_starts(method):
            sources = _Sources(start)
            for name, module in sources.collect_reachable(start).items():
                hashes[name] = module.sha256
                for file in sources.find_named_files(name, module):
                    hashes[f"{name}/{file.name}"] = file_sha256(file)
    except (OSError, SyntaxError, ValueError):
        return {}
    return dict(sorted(hashes.items()))


def outside_sources(method: Method) -> dict[Path, Path]:
    """Collect the files of other packages that a method is made of, the method's own first.

    They are the modules and the files that `code_hashes` names.

    Returns:
        The path of each file, by its path below its package's root; nothing for a method of this
        package that stands on no other's, and where the source cannot be read.
    """
    files: dict[Path, Path] = {}
    try:
        for start in _list_starts(method):
            sources = _Sources(start)
            for name, module in sources.collect_reachable(start).items():
                if (
                    name.partition(".")[0] != _OURS
                    and (path := sources.find_file(name)) is not None
                ):
                    for file in (path, *sources.find_named_files(name, module)):
                        files.setdefault(file.relative_to(sources.root), file)
    except (OSError, SyntaxError, ValueError):
        return {}
    return files


def _list_starts(method: Method) -> list[str]:
    """List the modules that register the method and those that it stands on."""
    bases = map(get_method, method.config.bases)
    return [method.train.__module__, *(base.train.__module__ for base in bases)]


@dataclass(frozen=True)
class _Module:
    """What is read of a module's source."""

    sha256: str
    """Of its canonical syntax tree."""
    imports: tuple[str, ...]
    """Every module that it may import, and the packages around them."""
    strings: frozenset[str]
    """What may be the name of a file."""


@lru_cache(maxsize=1024)
def _read_module(version: FileVersion, package: str) -> _Module:
    """Parse a file once in each version: a worker asks at each of its trials."""
    tree = ast.parse(version[0].read_bytes())
    canonical = json.dumps(_canonicalise_tree(tree), sort_keys=True)
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    strings = (value for value in constants if isinstance(value, str))
    return _Module(
        sha256=hashlib.sha256(canonical.encode()).hexdigest(),
        imports=tuple(dict.fromkeys(_list_imports(tree, package))),
        strings=frozenset(value for value in strings if len(value) < 256),
    )


class _Sources:
    """The modules that count as code of the method that is registered in one module."""

    def __init__(self, start: str) -> None:
        file = getattr(sys.modules.get(start), "__file__", None)
        if file is None:
            raise OSError(f"module {start} has no file")
        self._file = Path(file)
        self._start = start
        depth = start.count(".") + (self._file.name == "__init__.py")
        self.root = self._file.parents[depth]
        site = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
        # In a source folder of its own, what lies beside the method is its own as well.
        self._own: set[str] | None = None
        if self.root in site:  # all top-level packages of the distributions that it comes from
            top = start.partition(".")[0]
            known = {} if top == _OURS else packages_distributions()
            mine = set(known.get(top, ()))
            self._own = {top} | {name for name, owners in known.items() if mine & set(owners)}

    def collect_reachable(self, start: str) -> dict[str, _Module]:
        """Collect the module and all that it imports, directly or indirectly, by name."""
        modules: dict[str, _Module] = {}
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name in modules or (path := self.find_file(name)) is None:
                continue
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            modules[name] = _read_module(file_version(path), package)
            waiting += modules[name].imports
        return modules

    def find_file(self, name: str) -> Path | None:
        """Return the file of a module; None if it does not count as the method's code."""
        if name == self._start:
            return self._file
        top, _, inner = name.partition(".")
        if top == _OURS:
            counts = any(f"{inner}.".startswith(f"{room}.") for room in ROOMS)
        else:
            counts = self._own is None or top in self._own
        if not counts:
            return None
        base = (_OUR_ROOT if top == _OURS else self.root).joinpath(*name.split("."))
        candidates = (base.with_name(f"{base.name}.py"), base / "__init__.py")
        return next((path for path in candidates if path.is_file()), None)

    def find_named_files(self, name: str, module: _Module) -> list[Path]:
        """Find the files beside a module that it names in a string, other than modules."""
        path = self.find_file(name)
        beside = [] if path is None else path.parent.iterdir()
        named = (file for file in beside if file.name in module.strings and file.suffix != ".py")
        return sorted(file for file in named if file.is_file())


def _list_imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield every module that a source may import, those that define our public names included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [f"{_OURS}.*" if alias.name == _OURS else alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if name == f"{_OURS}.*":  # whatever is used of it
                yield from (f"{_OURS}.{home}" for home in set(cse_methods.HOMES.values()))
            elif parts[0] == _OURS and (home := cse_methods.HOMES.get(parts[-1])):
                yield f"{_OURS}.{home}"
            yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _canonicalise_tree(node: Any) -> Any:
    """Convert a syntax tree to JSON without line numbers, docstrings and empty fields.

    Python versions add empty fields to their trees; what a source means stays.
    """
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.AST):
        fields = ((name, _canonicalise_tree(value)) for name, value in ast.iter_fields(node))
        return [type(node).__name__, {n: v for n, v in fields if v not in (None, [])}]
    if isinstance(node, list):
        # A statement that is a string which nothing uses is a docstring.
        texts = (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant) for x in node)
        return [
            _canonicalise_tree(x) for x, is_text in zip(node, texts, strict=True) if not is_text
        ]
    return node
