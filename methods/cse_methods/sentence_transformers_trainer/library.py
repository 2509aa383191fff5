"""The installed sentence-transformers, read without importing it, which takes seconds."""

import ast
import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal, NamedTuple

VERSIONS = ("sentence-transformers", "transformers", "accelerate", "peft")
"""The packages whose versions are part of a trial's key."""
_SCALARS: Mapping[str, Any] = {"float": float, "int": int, "bool": bool}


class Parameter(NamedTuple):
    """One argument of a loss that a sweep can set."""

    kind: Any
    """Its type, without None."""
    default: Any


def sources() -> Path:
    """Return the folder of the library's sources."""
    spec = find_spec("sentence_transformers")
    assert spec is not None and spec.origin is not None  # this package requires it
    return Path(spec.origin).parent


def hash_sources() -> str:
    """Hash, in hex digits, all Python files of the library with their paths."""
    root, digest = sources(), hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def identify_library() -> dict[str, str]:
    """Return what a trial's numbers depend on in the libraries, by name."""
    versions = {name: version(name) for name in VERSIONS}
    return versions | {"sentence-transformers sources": hash_sources()}


@lru_cache(maxsize=1)
def loss_parameters() -> dict[str, dict[str, Parameter]]:
    """Read the arguments of each loss class that are numbers, truth values or words.

    Others, such as a distance function, are left out.
    """
    found = dict[str, dict[str, Parameter]]()
    for file in sorted((sources() / "sentence_transformer" / "losses").glob("*.py")):
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = dict(_iterate_parameters(node))
    return found


def _iterate_parameters(loss: ast.ClassDef) -> Iterator[tuple[str, Parameter]]:
    for function in loss.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            defaults = function.args.defaults
            with_default = function.args.args[len(function.args.args) - len(defaults) :]
            for argument, default in zip(with_default, defaults, strict=True):
                if (kind := _read_kind(argument.annotation)) is not None:
                    yield argument.arg, Parameter(kind, ast.literal_eval(default))


def _read_kind(annotation: ast.expr | None) -> Any:
    """Return the type of an annotation, without None; None if it is of another kind."""
    match annotation:
        case ast.Name(id=name):
            return _SCALARS.get(name)
        case ast.BinOp(left=left, right=ast.Constant(value=None)):
            return _read_kind(left)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=words):
            return Literal[ast.literal_eval(words)]
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[inner, _])):
            kind = _read_kind(inner)
            return None if kind is None else GenericAlias(tuple, (kind, ...))
    return None
