"""Problems of a sweep file: collected, formatted with their values, and translated from pydantic.

No other module depends on the wording of pydantic's messages.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, RootModel, ValidationError
from pydantic_core import ErrorDetails

from cse_methods.errors import CseError, SettingError, nearest_names
from cse_methods.files.text import read_own_table
from cse_methods.own_pairs import OwnPairs
from cse_methods.settings import Settings
from cse_platform.errors import NotInstalledError
from cse_platform.secrets import mask_values

_T = TypeVar("_T")

Steps = tuple[str | int, ...]
"""Keys and list positions that lead from the top of a sweep to a value."""

MAX_SHOWN = 80
PYTHON_NULL = "None"
NULL_HINT = "; YAML writes None as null"

_WORDS = read_own_table(Path(__file__).with_name("other_words.csv"))
SAME_THING = {word: row["ours"] for row in _WORDS for word in row["theirs"].split()}
"""Our name for each word that other tools use."""
BLOCKS = {row["ours"]: row["block"] for row in _WORDS if row["block"]}
"""The block of a key that is often written beside the blocks."""
_EXPECTED = {
    row["type"]: row["expected"]
    for row in read_own_table(Path(__file__).with_name("expected_words.csv"))
}
"""What is expected, by the type of pydantic's error; names in braces are of its context."""
_FORMS = {
    "dev": ("{{checkpoint: {0}, search: {0}}}", "stsb"),
    "evaluate": ("{{top: 1, tasks: [{0}]}}", "sts"),
    "seeds.confirm": ("{{top: {0}, seeds: [0, 1, 2]}}", "3"),
    "search": ("{{sampler: tpe, trials: {0}}}", "20"),
    "resources": ("{{gpu: {0}, cpu: 4}}", "1"),
    "space": ("{{learning_rate: {{low: 1.0e-5, high: 5.0e-5, log: true}}}}", ""),
}
"""How a block is written, by its path, and a value for it if the file has none that fits."""

_NO_SAMPLERS = {
    **{
        pruner: f"it stops trials: 'pruner: {pruner}'"
        for pruner in ("hyperband", "successive_halving")
    },
    **dict.fromkeys(
        ("nsgaii", "nsgaiii"),
        "removed in 0.1.0: a search has one objective, for which use 'tpe'; for several, read "
        "search.db with Optuna's own tools",
    ),
}
"""What to do instead of naming as a sampler what is none."""


@dataclass(frozen=True)
class Problem:
    """One problem of a sweep; its text names the refused value and says what to do."""

    path: Steps
    text: str
    origin: int | str | None = None
    """Line (from 1) or `--set …`; None if it follows from the path."""

    def with_prefix(self, prefix: Steps) -> "Problem":
        """Return the problem with a prefix added to its path."""
        return replace(self, path=prefix + self.path)


@dataclass
class Inspection:
    """Collects the problems of one sweep from checks, and skips checks that depend on broken keys.

    A CseError that a check raises becomes a problem of the keys that the check is about. Later
    checks that need one of these keys are skipped; all others run.
    """

    problems: list[Problem] = field(default_factory=list)
    """The problems; their paths are relative to the sweep."""
    to_install: list[str] = field(default_factory=list)
    """Requirements that are not installed on this machine, one line each."""

    @property
    def wrong_keys(self) -> set[str]:
        """Top-level keys with a problem; a problem without a path counts as one of `fixed`."""
        return {str(problem.path[0]) if problem.path else "fixed" for problem in self.problems}

    def is_sound(self, *keys: str) -> bool:
        """Whether these keys have no known problem."""
        return self.wrong_keys.isdisjoint(keys)

    def run_check(
        self, path: Steps, check: Callable[[], _T], *, needs: Sequence[str] = ()
    ) -> _T | None:
        """Run a check and return its result; None if it fails or a key that it needs is broken.

        `path` is what the check is about.
        """
        if not self.is_sound(*needs):
            return None
        try:
            return check()
        except NotInstalledError as error:
            if str(error) not in self.to_install:
                self.to_install.append(str(error))
        except CseError as error:
            problem = Problem(path, str(error).removeprefix(f"{dotted_path(path)}: "))
            if problem not in self.problems:
                self.problems.append(problem)
        return None


class ProblemsError(ValueError):
    """All problems that a validator found; their paths are relative to the validated value."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(joined_problems(problems))
        self.problems = tuple(problems)


def dotted_path(path: Steps) -> str:
    """Format a path as in `--set`, e.g. `space.tau2.1`."""
    return ".".join(map(str, path))


def joined_problems(problems: Iterable[Problem]) -> str:
    """Join problems into one line, each preceded by its path."""
    return "; ".join(f"{dotted_path(p.path)}: {p.text}".removeprefix(": ") for p in problems)


def find_our_word(name: str) -> str:
    """Find our word for one that other tools use, in any case; the name itself if there is none."""
    return SAME_THING.get(name.lower(), name)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that was meant, as the end of a sentence; empty if none is near."""
    known = list(known)
    ours = find_our_word(name.lower())
    close = [ours] if ours in known else nearest_names(name, known)
    return f"; did you mean {close[0]!r}?" if close else ""


def decimal_hint(written: str) -> str:
    """Suggest a decimal point for a comma, as the end of a sentence; empty for other texts."""
    is_number = re.fullmatch(r"[+-]?\d+,\d+([eE][+-]?\d+)?", written)
    return f"; write {written.replace(',', '.')}, with a decimal point" if is_number else ""


def unquoted_part(value: Any) -> str | None:
    """Return a list or a mapping of YAML that was quoted; None for anything else."""
    text = value.strip() if isinstance(value, str) else ""
    return text if (text[:1], text[-1:]) in (("[", "]"), ("{", "}")) else None


def format_value(value: Any) -> str:
    """Format a value on one short line, as in YAML, with secrets masked."""
    value = mask_values(value)
    quoted = isinstance(value, str)
    text = repr(value) if quoted else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def first_problem(error: ValidationError) -> str:
    """Return what the first problem of a validation error says, without its place."""
    return error.errors()[0]["msg"].removeprefix("Value error, ")


def real_path(path: Steps, data: Any) -> Steps:
    """Drop the steps that do not exist in `data`, such as union tags."""
    steps: list[str | int] = []
    for step in path:
        in_list = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if in_list or (isinstance(data, dict) and step in data):
            data = data[step]
            steps.append(step)
    return tuple(steps)


def expanding_kind(*, default: str) -> BeforeValidator:
    """Make a validator for a union with the discriminator `kind`, which accepts the kind alone.

    `default` is the kind of a mapping without one. Any other value becomes the kind itself, which
    `problems_in` then reports as the refused value.
    """

    def expand_kind(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return value
        return {"kind": default, **value} if isinstance(value, dict) else {"kind": value}

    return BeforeValidator(expand_kind)


def problems_in(
    error: ValidationError, data: Any, *, model: type[Settings] | None = None
) -> list[Problem]:
    """List the problems in a validation error of `data`, plain values; paths start there.

    Steps that are not in `data`, such as union tags, are dropped from paths. Similar names for an
    unknown key are looked up in `model`.
    """
    expected: dict[tuple[Steps, str], tuple[Any, list[str]]] = {}
    problems = []
    for detail in error.errors():
        loc, given, phrase = detail["loc"], detail["input"], None
        if detail["type"] == "union_tag_invalid":
            loc, given = (*loc, "kind"), given["kind"]
            phrase = " or ".join(detail["ctx"]["expected_tags"].rsplit(", ", 1))
        elif template := _EXPECTED.get(detail["type"]):
            bounds = detail.get("ctx", {}).items()
            whole = {k: int(v) for k, v in bounds if isinstance(v, float) and v.is_integer()}
            phrase = template.format(**dict(bounds) | whole)
        elif detail["msg"].startswith("Input should be "):
            phrase = detail["msg"].removeprefix("Input should be ")
        path = real_path(loc, data)
        if phrase:
            # Each member of a union reports what it expects of the same value.
            _, phrases = expected.setdefault((path, format_value(given)), (given, []))
            phrases.append(phrase)
        else:
            problems += [inner.with_prefix(path) for inner in _translate_error(detail, model)]
    for (path, got), (given, phrases) in expected.items():
        wanted = " or ".join(dict.fromkeys(phrases))
        hint = ""
        if not isinstance(given, dict):
            text = got.strip("'")
            hint = did_you_mean(text, re.findall(r"'([^']+)'", wanted))
            if not hint and "sampler" in path[-2:]:
                instead = _NO_SAMPLERS.get(find_our_word(text.lower()))
                hint = f"; {instead}" if instead else ""
            if given == PYTHON_NULL:
                hint = NULL_HINT
            elif wanted in ("a list", "a mapping") and (part := unquoted_part(given)):
                hint = f"; write {part}, without quotes"
            elif "number" in wanted and (decimal := decimal_hint(text)):
                hint = decimal
            elif wanted == "a list" and path[-1:] == ("scale",):
                hint = "; write [LOWEST, HIGHEST], such as [0, 5]"
            elif wanted == "a list" and given is not None:
                hint = f"; write [{text}]"
                if path[-1] == "seeds" and isinstance(given, int) and given > 1:
                    hint += f", or [0, 1, …] for {text} seeds"
            elif wanted == "a mapping" and (form := _FORMS.get(dotted_path(path))):
                is_number = form[1].isdecimal()
                fits = isinstance(given, int if is_number else str) and not isinstance(given, bool)
                hint = f"; write {path[-1]}: {form[0].format(text if fits else form[1])}"
        problems.append(Problem(path, f"expected {wanted}, got {got}{hint}"))
    return list(dict.fromkeys(problems))


def _translate_error(detail: ErrorDetails, model: type[Settings] | None) -> list[Problem]:
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, ProblemsError):
        return list(cause.problems)
    if isinstance(cause, SettingError):
        steps = tuple(int(step) if step.isdigit() else step for step in cause.setting.split("."))
        if isinstance(inner := cause.__cause__, ValidationError):  # of a file of pairs
            entry = reduce(getitem, steps, detail["input"])
            problems = problems_in(inner, entry, model=OwnPairs)
            return [problem.with_prefix(steps) for problem in problems]
        return [Problem(steps, str(cause))]
    if detail["type"] == "extra_forbidden":
        *path, key = detail["loc"]
        parts = _find_models(path, model)
        fields = [pair for part in parts for pair in part.model_fields.items()]
        known = sorted({name for name, info in fields if info.repr})  # others are not for files
        names = f"; known: {', '.join(known)}" if known else ""
        if "kind" in known and not any(i.is_required() for n, i in fields if n != "kind"):
            names += f"; --set {dotted_path((*path[:-1],))}={path[-1]} drops all other keys"
        elsewhere = {k: text for part in parts for k, text in part.elsewhere.items()}
        instead = elsewhere.get(str(key)) or elsewhere.get(find_our_word(str(key)))
        hint = f"; {instead}" if instead else did_you_mean(str(key), known)
        if hint == "; did you mean 'sampler'?":
            kinds = [
                kind
                for part in _find_models([*path, "sampler"], model)
                for kind in get_args(part.model_fields["kind"].annotation)
            ]
            hint += f" it is one of {', '.join(kinds)}"
        return [Problem((), f"no such key{hint or names}")]
    if detail["type"] == "missing":
        *path, key = detail["loc"]
        form = _FORMS.get(dotted_path(tuple(path)))
        hint = f"; write {path[-1]}: {form[0].format(form[1])}" if form else ""
        what = f"the key {key!r}" if isinstance(key, str) else f"value {key + 1} of the list"
        return [Problem((key,), f"{what} is missing{hint}")]
    return [Problem((), str(cause) if cause else detail["msg"])]


def _find_models(loc: Sequence[str | int], model: type[Settings] | None) -> list[type[Settings]]:
    """Find the models that can be at `loc`; a union tag in it, a name or a kind, selects one."""
    here = [model] if model else []
    for step in loc:
        fields = [part.model_fields[str(step)] for part in here if step in part.model_fields]
        kinds = {part: part.model_fields.get("kind") for part in here}
        if tagged := [
            part
            for part, kind in kinds.items()
            if step == part.__name__ or (kind is not None and step in get_args(kind.annotation))
        ]:
            here = tagged
        elif fields:
            here = [inner for field in fields for inner in _iterate_models(field.annotation)]
    return here


def _iterate_models(annotation: Any) -> Iterator[type[Settings]]:
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        yield from _iterate_models(annotation.model_fields["root"].annotation)
    elif isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _iterate_models(part)
