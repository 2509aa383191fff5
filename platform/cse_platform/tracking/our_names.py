"""Finds our names for methods, backbones and tasks by how others spell them."""

import re
from functools import cache

from cse_methods.data.dev_selection import DEV_TASKS
from cse_methods.encoders.short_names import HUB, ONLY_PACKAGED
from cse_methods.names import backbone_name, method_name
from cse_methods.registry import available_methods
from cse_platform.sweep.problems import format_value
from cse_platform.tracking.events import TASK_METRICS

_METRIC_WORDS = frozenset({"spearman", "cosine", "cos", "accuracy", "acc"})
"""What others add to the name of a task, whose main metric it is."""


def refuse_other_spelling(kind: str, name: str) -> None:
    """Raise ValueError if a name is another spelling of one of ours; a new name is fine.

    `kind` is what it names: a `method`, a `backbone` or a `dev` set.
    """
    if kind == "dev":
        spelled = find_task(name)
        ours = spelled if spelled in DEV_TASKS else name
    else:
        ours = _find_spellings(kind).get(name.strip().lower(), name)
    if ours != name:
        raise ValueError(
            f"expected our name for it, got {format_value(name)}; did you mean {ours!r}?"
        )


def find_task(name: str) -> str | None:
    """Find the task or dev set that a name spells in any way; None if it is none of ours.

    The name of a metric at its end does not count: `STS-B_spearman` is `stsb`.
    """
    words = re.split(r"[\W_]+", name.lower())
    while words and words[-1] in _METRIC_WORDS:
        words.pop()
    ours = {task.replace("_", ""): task for task in (*TASK_METRICS, *DEV_TASKS)}
    return ours.get("".join(words))


@cache
def _find_spellings(kind: str) -> dict[str, str]:
    """Find our names of methods or backbones by how others spell them, in lower case."""
    if kind == "method":
        return {other.lower(): n for n in available_methods() for other in (method_name(n), n)}
    spellings = {name: name for name in ("mini", *ONLY_PACKAGED, *HUB)}
    for name, row in HUB.items():
        for other in (row["model"], row["model"].rpartition("/")[2], backbone_name(name)):
            spellings[other.lower()] = name
    return spellings
