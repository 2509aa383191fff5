"""Dimensions as W&B, Ray Tune and Optuna write them, translated to the form of a sweep file."""

import json
import re
from collections.abc import Mapping
from typing import Any

from cse_platform.sweep.problems import SAME_THING
from cse_platform.values import is_number

_WORDS = {
    **{word: ours for word, ours in SAME_THING.items() if ours in ("low", "high", "choices")},
    **{word: word for word in ("low", "high", "choices", "log", "scale", "when")},
    **dict.fromkeys(("distribution", "type", "kind"), "kind"),
    **dict.fromkeys(("range", "bounds", "interval"), "range"),
    **dict.fromkeys(("step", "q"), "step"),
}
"""Our name of each part of a dimension; `kind`, `range` and `scale` are only of other tools."""
_KINDS: dict[str, type | None] = {
    **dict.fromkeys(("uniform", "float", "double"), float),
    **dict.fromkeys(("int", "integer", "intuniform", "randint"), int),
    **dict.fromkeys(("range", "discreteuniform"), None),
    **dict.fromkeys(("choice", "categorical", "gridsearch", "grid"), list),
}
"""The type of the values of each kind of dimension; None for numbers as they are written."""
_CALL = re.compile(r"(?:\w+\.)*(\w+)\((.*)\)", re.DOTALL)
"""A call of Python, as `tune.loguniform(1e-5, 1e-3)`."""
_LIST = re.compile(r"\[.*\]", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])")


def translate_dimension(value: Any) -> str | None:
    """Write a dimension of another tool as one of a sweep file; None if it is not understood."""
    if isinstance(value, str):
        call = _CALL.fullmatch(value.strip())
        return _write_dimension(_read_call(*call.groups())) if call else None
    if not isinstance(value, Mapping):
        return None
    given = {_WORDS.get(str(key), str(key)): part for key, part in value.items()}
    unknown = [key for key in given if key not in _WORDS.values()]
    if len(unknown) == 1 and isinstance(given[unknown[0]], list) and "kind" not in given:
        given |= {"kind": unknown[0], "range": given.pop(unknown[0])}  # {loguniform: [1e-5, 1e-3]}
    elif unknown:
        return None
    return _write_dimension(given)


def _read_call(kind: str, arguments: str) -> dict[str, Any]:
    """Read a call of Python as a mapping of our words."""
    if listed := _LIST.search(arguments):
        return {"kind": kind, "range": listed[0]}
    numbers = [
        float(number) if re.search("[.eE]", number) else int(number)
        for number in _NUMBER.findall(arguments)
    ]
    is_log = re.search(r"log\s*=\s*True", arguments) is not None
    given = {"kind": kind, "range": numbers[:2], "log": is_log}
    return given | ({"step": numbers[2]} if len(numbers) > 2 else {})


def _write_dimension(given: Mapping[str, Any]) -> str | None:
    """Write a dimension from its parts by our words; None if they do not make one."""
    kind = str(given.get("kind", "range")).lower()
    name = re.sub("suggest|values|log|^q|[_-]", "", kind)
    if name not in _KINDS:
        return None
    choices = given.get("choices", given.get("range") if _KINDS[name] is list else None)
    parts = {"when": given["when"]} if "when" in given else {}
    if choices is not None:
        text = choices if isinstance(choices, str) else json.dumps(choices)
        return _write_mapping({"choices": choices} | parts) if parts else text
    bounds = given.get("range", [given.get("low"), given.get("high")])
    if not isinstance(bounds, list) or len(bounds) != 2 or not all(map(is_number, bounds)):
        return None
    low, high = map(_KINDS[name] or (lambda number: number), bounds)
    if kind.endswith("randint"):  # of Ray, whose upper bound is not drawn
        high -= 1
    is_log = "log" in kind or given.get("log") is True or given.get("scale") == "log"
    if low >= high or (is_log and low <= 0):  # W&B's log_uniform has exponents
        return None
    if is_log:
        parts = {"log": True, **parts}
    elif is_number(given.get("step")):
        parts = {"step": given["step"], **parts}
    return _write_mapping({"low": low, "high": high, **parts})


def _write_mapping(parts: Mapping[str, Any]) -> str:
    return f"{{{', '.join(f'{key}: {json.dumps(part)}' for key, part in parts.items())}}}"
