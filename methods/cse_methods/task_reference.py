"""References to tasks: `mteb:NAME`, `benchmark:NAME`, and own files by their kind.

This module imports no library of tasks and opens no file.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self, get_args

from cse_methods.errors import EvaluationError
from cse_methods.files.named import bare_name, expand
from cse_methods.settings import Settings, setting

OwnKind = Literal["retrieval", "triplets", "classification", "pairs", "clusters"]
"""The kinds of tasks that a lab's own files make."""
OWN_KINDS: tuple[OwnKind, ...] = get_args(OwnKind)
RANKED_KINDS = ("retrieval", "triplets")
"""Those that rank documents, whose scores as dev sets are trec_eval's alone."""
LibraryKind = Literal["mteb", "benchmark"]
_LIBRARY = re.compile(r"(mteb|benchmark):(.*)")
_KEYS: Mapping[str, set[str]] = {
    "mteb": {"mteb", "split"},
    "retrieval": {"retrieval", "name", "split"},
    **{kind: {kind, "name"} for kind in OWN_KINDS if kind != "retrieval"},
}
"""The keys of the mapping that names a task, by its kind."""
_FORMS = (
    "mteb:NAME, mteb:NAME/SUBSET, benchmark:NAME, or own files such as {retrieval: ./folder}, "
    "{triplets: ./f.jsonl}, {classification: {train: ./a.tsv, test: ./b.tsv}}"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class Reference(Settings):
    """A task of a library, a benchmark of its tasks, or a task that own files make."""

    kind: LibraryKind | OwnKind
    name: str = setting(..., "of the task or benchmark in the library; of an own set", min_length=1)
    subsets: tuple[str, ...] = setting((), "of a task in several languages; all if left out")
    split: str | None = setting(None, "of a task of mteb, to develop on; None is that of its tests")
    files: dict[str, str] = setting({}, "of an own set, by the part that each holds")
    members: tuple[str, ...] = setting((), "the names of a benchmark's tasks, once it is fetched")
    sha256: str | None = setting(None, "of the rows that are read, once they are fetched")

    @property
    def is_own(self) -> bool:
        """Whether a lab's own files make the task."""
        return self.kind in OWN_KINDS

    @property
    def task(self) -> str:
        """Name of the task in scores, on the leaderboard and in MLflow."""
        return "/".join((f"{self.kind}:{self.name}", *self.subsets))

    @property
    def paths(self) -> tuple[str, ...]:
        """The own files that are read."""
        return tuple(self.files.values())

    @property
    def scored_paths(self) -> tuple[str, ...]:
        """Those of the own files that hold what is scored: the labels, or all of a single file."""
        return tuple(path for part, path in self.files.items() if part in ("qrels", "test", "all"))

    def with_paths(self, change: Callable[[str], str]) -> Self:
        """Return a copy with each path changed."""
        files = {part: change(path) for part, path in self.files.items()}
        return self.model_copy(update={"files": files})


def is_reference(entry: Any) -> bool:
    """Whether an entry of a list of tasks has the form of a reference."""
    if isinstance(entry, Mapping):
        return any(kind in entry for kind in _KEYS)
    return isinstance(entry, str) and _LIBRARY.fullmatch(entry) is not None


def parse_reference(entry: str | Mapping[str, Any], *, dev: bool = False) -> Reference:
    """Read a reference as a list of tasks holds it; no task is looked up.

    Args:
        entry: the reference.
        dev: whether it names a dev set. A task of mteb is then read on its split `train`, and a
            folder by `qrels/dev.tsv`, unless the entry has another `split`.

    Raises:
        EvaluationError: if the entry has none of the forms.
    """
    if isinstance(entry, str) and dev:
        entry = {"mteb": entry.removeprefix("mteb:")} if entry.startswith("mteb:") else entry
    if isinstance(entry, str):
        return _parse_word(entry)
    kinds = [kind for kind in _KEYS if kind in entry]
    problem = EvaluationError(f"{dict(entry)!r} names no task; expected {_FORMS}")
    others = [entry[key] for key in ("name", "split") if key in entry]
    if len(kinds) != 1 or not set(entry) <= _KEYS[kinds[0]]:
        raise problem
    named = entry[kinds[0]]
    if not all(isinstance(other, str) and _NAME.fullmatch(other) for other in others):
        raise EvaluationError(
            f"{dict(entry)!r}: name and split are at most 100 ASCII letters, digits, '-', '_' and "
            "'.', a letter or digit first"
        )
    if kinds[0] == "mteb" and isinstance(named, str):
        if not dev:
            raise EvaluationError(f"{dict(entry)!r}: a split is of dev sets; write 'mteb:{named}'")
        found = _parse_word(f"mteb:{named}")
        return found.model_copy(update={"split": entry.get("split", "train")})
    by_part = {"all": named} if isinstance(named, str) else named
    if (
        not isinstance(by_part, Mapping)
        or not all(isinstance(path, str) and path for path in by_part.values())
        or set(by_part) not in ({"all"}, *[{"train", "test"}] * (kinds[0] == "classification"))
    ):
        raise problem
    files = {part: expand(by_part[part]) for part in sorted(by_part)}
    name = str(entry.get("name") or bare_name(files.get("test") or files["all"]))
    if kinds[0] == "retrieval":
        split = entry.get("split", "dev" if dev else "test")
        parts = {
            "corpus": "corpus.jsonl",
            "queries": "queries.jsonl",
            "qrels": f"qrels/{split}.tsv",
        }
        files = {part: f"{files['all'].rstrip('/')}/{file}" for part, file in parts.items()}
    if not _NAME.fullmatch(name):
        raise EvaluationError(f"{dict(entry)!r} would be called {name!r}; add another `name:`")
    return Reference(kind=kinds[0], name=name, files=files)


def _parse_word(word: str) -> Reference:
    match = _LIBRARY.fullmatch(word)
    if match is None or not all(parts := match[2].strip().split("/")):
        raise EvaluationError(f"{word!r} names no task; expected {_FORMS}")
    if match[1] == "benchmark":
        return Reference(kind="benchmark", name=match[2].strip())
    return Reference(kind="mteb", name=parts[0], subsets=tuple(sorted(parts[1:])))
