"""A problem of a sweep file: where, and what; and how names and values are shown in one."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from cse_platform.secrets import mask_values

Path = tuple[str | int, ...]
"""Keys and list positions from the top of a sweep down to a value."""

MAX_SHOWN = 80


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a sweep: what was refused, the value, and the way out."""

    path: Path
    text: str
    place: int | str | None = None
    """Line (from 1) or `--set …`; None where the path leads to it."""

    def under(self, prefix: Path) -> "Problem":
        """The same problem, seen from further up."""
        return replace(self, path=prefix + self.path)


class ProblemsError(ValueError):
    """What a validator raises that found several problems; paths start at the validated value."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(joined_problems(problems))
        self.problems = tuple(problems)


def dotted_path(path: Path) -> str:
    """A path as `--set` takes it, e.g. `space.tau2.1`."""
    return ".".join(map(str, path))


def joined_problems(problems: Iterable[Problem]) -> str:
    """The problems in one line, each after the path that it is about."""
    return "; ".join(f"{dotted_path(p.path)}: {p.text}".removeprefix(": ") for p in problems)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, as the end of a sentence; empty if none is near."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def format_value(value: Any) -> str:
    """A value on one short line, as YAML would have it, with secrets masked."""
    value = mask_values(value)
    quoted = isinstance(value, str)
    text = repr(value) if quoted else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
