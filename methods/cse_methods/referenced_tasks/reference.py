"""References to tasks: `mteb:NAME`, `benchmark:NAME`, and own files by their kind.

This module imports no library of tasks and opens no file.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from cse_methods.errors import EvaluationError
from cse_methods.files.named import bare_name, expand
from cse_methods.settings import Settings, setting

OwnKind = Literal["retrieval", "triplets", "classification", "pairs", "clusters"]
"""The kinds of tasks that a lab's own files make."""
OWN_KINDS: tuple[OwnKind, ...] = get_args(OwnKind)
LibraryKind = Literal["mteb", "benchmark"]
_LIBRARY = re.compile(r"(mteb|benchmark):(.*)")
_FORMS = (
    "mteb:NAME, mteb:NAME/SUBSET, benchmark:NAME, or own files such as {retrieval: ./folder}, "
    "{triplets: ./f.jsonl}, {classification: {train: ./a.tsv, test: ./b.tsv}}"
)


class Reference(Settings):
    """A task of a library, a benchmark of its tasks, or a task that own files make."""

    kind: LibraryKind | OwnKind
    name: str = setting(..., "of the task or benchmark in the library; of an own set", min_length=1)
    subsets: tuple[str, ...] = setting((), "of a task in several languages; all if left out")
    files: dict[str, str] = setting({}, "of an own set, by the part that each holds")
    members: tuple[str, ...] = setting((), "the names of a benchmark's tasks, once it is fetched")
    sha256: str | None = setting(None, "of the rows that are read, once they are fetched")

    @property
    def task(self) -> str:
        """Name of the task in scores, on the leaderboard and in MLflow."""
        if self.kind in OWN_KINDS:
            return self.name
        return "/".join((f"{self.kind}:{self.name}", *self.subsets))


def is_reference(entry: Any) -> bool:
    """Whether an entry of a list of tasks has the form of a reference."""
    if isinstance(entry, Mapping):
        return any(kind in entry for kind in OWN_KINDS)
    return isinstance(entry, str) and _LIBRARY.fullmatch(entry) is not None


def parse_reference(entry: str | Mapping[str, Any]) -> Reference:
    """Read a reference as a list of tasks holds it; no task is looked up.

    Raises:
        EvaluationError: if the entry has none of the forms.
    """
    if isinstance(entry, str):
        match = _LIBRARY.fullmatch(entry)
        if match is None or not all(parts := match[2].strip().split("/")):
            raise EvaluationError(f"{entry!r} names no task; expected {_FORMS}")
        if match[1] == "benchmark":
            return Reference(kind="benchmark", name=match[2].strip())
        return Reference(kind="mteb", name=parts[0], subsets=tuple(sorted(parts[1:])))
    kinds = [kind for kind in OWN_KINDS if kind in entry]
    files = entry[kinds[0]] if kinds else None
    by_part = {"all": files} if isinstance(files, str) else files
    if (
        len(kinds) != 1
        or not set(entry) <= {kinds[0], "name"}
        or not isinstance(by_part, Mapping)
        or not by_part
        or not all(isinstance(text, str) and text for item in by_part.items() for text in item)
    ):
        raise EvaluationError(f"{dict(entry)!r} names no task; expected {_FORMS}")
    paths = {str(part): expand(path) for part, path in by_part.items()}
    name = entry.get("name") or bare_name(list(paths.values())[-1])
    return Reference(kind=kinds[0], name=str(name), files=paths)
