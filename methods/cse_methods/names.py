"""Spell methods, backbones, tasks and hyperparameters as their authors do."""

import re
from pathlib import Path

from cse_methods.files.text import read_own_table

_ROWS = read_own_table(Path(__file__).with_suffix(".csv"))
METHODS, BACKBONES, TASKS = (
    {row["name"]: row["spelling"] for row in _ROWS if row["kind"] == kind}
    for kind in ("method", "backbone", "task")
)
PAPER_PAGES = {
    "compcse": "https://aclanthology.org/2023.acl-long.882",
    "hicl": "https://arxiv.org/abs/2310.09720",
    "rankcse": "https://arxiv.org/abs/2305.16726",
    "whitenedcse": "https://arxiv.org/abs/2305.17746",
}
"""Where the papers are whose tables come with the package: a method's file says the same, and takes
torch to read."""
_GREEK = dict(
    zip(
        ("alpha", "beta", "gamma", "delta", "eta", "kappa", "lambda", "mu", "sigma", "tau"),
        "αβγδηκλμστ",
        strict=True,
    )
)
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_LETTERS_THEN_DIGITS = re.compile(r"([a-z]+?)(\d*)")


def method_name(method: str) -> str:
    """Spell a method as its authors do; an outside method keeps its registered name.

    What follows in brackets stays: `diffcse (released)` is DiffCSE (released).
    """
    name, bracket, remark = method.partition(" (")
    return METHODS.get(name, name) + bracket + remark


def backbone_name(backbone: str) -> str:
    """Spell a backbone as papers do; a folder or a model of a hub keeps its name."""
    return BACKBONES.get(backbone, backbone)


def task_name(task: str) -> str:
    """Spell a task as papers do; a lab's own set keeps the name of its file."""
    return TASKS.get(task, task)


def paper_page(source: str) -> str | None:
    """Return the web page of the paper that a source of numbers such as `rankcse table2` names."""
    return PAPER_PAGES.get(source.partition(" ")[0])


def hyperparameter_name(name: str) -> str:
    """Spell Greek letters as formulas do: `γ` for gamma, `negative τ` for negative_tau.

    A name without one stays as it is in a sweep file.
    """
    words = name.split("_")
    return (
        " ".join(map(_spell_symbol, words)) if any(_spell_symbol(w) != w for w in words) else name
    )


def _spell_symbol(word: str) -> str:
    match = _LETTERS_THEN_DIGITS.fullmatch(word)
    if match is None or match[1] not in _GREEK:
        return word
    return _GREEK[match[1]] + match[2].translate(_SUBSCRIPTS)
