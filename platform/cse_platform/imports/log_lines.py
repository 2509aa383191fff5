"""The dictionaries of numbers in a training log; all other text is skipped."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cse_platform.errors import ImportRefusedError

_DICT = re.compile(r"\{[^{}]*\}")
_NOT_FINITE = re.compile(r"(?<=: )-?(?:nan|inf)\b", re.IGNORECASE)

LogEntry = dict[str, float]


def read_log(file: Path) -> list[LogEntry]:
    """Each dictionary of a log, in order, without its texts; ImportRefusedError if unreadable."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ImportRefusedError(f"{file} cannot be read: {error.strerror}") from None
    found = (_numbers(entry) for entry in _dictionaries(text))
    return [line for line in found if line]


def _dictionaries(text: str) -> Iterator[Mapping[str, Any]]:
    state = _json(text)
    if isinstance(state, dict) and isinstance(state.get("log_history"), list):
        yield from (entry for entry in state["log_history"] if isinstance(entry, dict))
        return
    for line in text.splitlines():
        whole = _json(line) if line.startswith("{") else None
        if isinstance(whole, dict):
            yield whole
            continue
        for match in _DICT.finditer(line):  # a progress bar can stand before it
            if isinstance(entry := _literal(match[0]), dict):
                yield entry


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(_NOT_FINITE.sub("'nan'", text))
    except (ValueError, SyntaxError):
        return None


def _numbers(entry: Mapping[Any, Any]) -> LogEntry:
    """The numbers of a dictionary; newer trainers print them as text."""
    line = {}
    for key, value in entry.items():
        try:
            line[str(key)] = float(value)
        except (TypeError, ValueError):
            continue
    return line
