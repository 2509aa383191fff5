"""Spells names in tables as papers print them."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from cse_methods.errors import UnknownMethodError
from cse_methods.names import METHODS, method_name
from cse_platform.presentation.tables import Table


def printed_method(method: str) -> str:
    """Spell a method as its authors do, also one of another package.

    That one is imported for the title of its paper: Labcse, if the title has labcse as that word.
    Where its package is not installed, or broken, it keeps its registered name.
    """
    name, bracket, remark = method.partition(" (")
    if name in METHODS:
        return method_name(method)
    from cse_methods.registry import get_method  # which few tables need

    with suppress(UnknownMethodError):
        words = re.findall(r"[\w+-]+", get_method(name).paper.title)
        name = next((word for word in words if _has_same_letters(word, name)), name)
    return name + bracket + remark


def _has_same_letters(a: str, b: str) -> bool:
    a, b = (re.sub(r"[_-]", "", word).lower() for word in (a, b))
    return a == b


def replace_names(table: Table, names: Mapping[str, str]) -> Table:
    """Replace whole words in a table's title, cells and notes by the texts for them."""
    pattern = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, names))})(?![\w./-]*\w)")

    def spell(text: str) -> str:
        return pattern.sub(lambda word: names[word[0]], text)

    return replace(
        table,
        title=spell(table.title),
        groups=tuple(
            tuple(tuple(replace(cell, text=spell(cell.text)) for cell in row) for row in group)
            for group in table.groups
        ),
        notes=tuple(map(spell, table.notes)),
    )
