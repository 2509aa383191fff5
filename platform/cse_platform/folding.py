"""How wide the columns of a table on a terminal are, so that cells are folded and never cut."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

Fold = Literal["freely", "names", "at blanks", "last"]
"""Within words where room is short; between words, and within them only where no other column can
give way any more; between words only; or between words, and after those that fold freely. The head
of any column is folded at its blanks, and within a word last of all."""

WORD = 24
"""Longer words may be broken, so that a column can be narrow."""
PART = 12
"""Shorter ones are broken only where nothing else helps."""
FEW = 4
"""What is left of the longest word of a head before names are broken."""
GAP = 2
"""Blanks between two columns."""
LINES = Box("    \n    \n ── \n    \n ── \n    \n    \n    \n")
"""A line below the head, and between two groups of rows."""


def table() -> Table:
    """An empty table in the one look that all commands share."""
    return Table(box=LINES, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)


@contextmanager
def trimmed(console: Console) -> Iterator[None]:
    """What is printed meanwhile ends its lines without blanks, if it is for no terminal."""
    if console.is_terminal:
        yield
        return
    with console.capture() as captured:
        yield
    console.file.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))


def natural_width(columns: Sequence[Sequence[str]]) -> int:
    """What a table needs for no cell to be folded.

    Args:
        columns: the cells of each, its head among them.
    """
    return sum(map(_widest, columns)) + GAP * (len(columns) - 1)


def widths(
    columns: Sequence[Sequence[str]], total: int, *, folds: Sequence[Fold] | None = None
) -> list[int]:
    """Whole words in each column where they fit; what is left goes where most text is.

    Not left to rich, which cuts cells where the least widths do not fit.

    Args:
        columns: the cells of each, its head first.
        total: how many characters there are for a line.
        folds: how each column gives way; None where all do freely.
    """
    folds = folds or ["freely"] * len(columns)
    text = [sum(map(cell_len, cells)) for cells in columns]
    room = total - GAP * (len(columns) - 1)
    now = _least(columns, folds, room)
    for first in (1, 0):  # heads only after all cells
        wanted = [_widest(cells[first:]) for cells in columns]
        for _ in range(room - sum(now)):
            growing = [i for i in range(len(columns)) if now[i] < wanted[i]]
            if growing:
                now[max(growing, key=lambda i: text[i] / now[i])] += 1
    return now


def _least(columns: Sequence[Sequence[str]], folds: Sequence[Fold], room: int) -> list[int]:
    """What must not be folded, giving up the less important until the rest fits."""
    line = [max(_longest_word(cells[:1]), _widest(cells[1:])) for cells in columns]
    whole = [_widest(" ".join(cells).split()) for cells in columns]
    word = [_longest_word(cells) for cells in columns]
    head = [_longest_word(cells[:1]) for cells in columns]
    part = [max(least, min(length, PART)) for least, length in zip(head, word, strict=True)]
    cell = [_longest_word(cells[1:]) for cells in columns]
    few = [min(length, FEW) for length in head]
    none = [1] * len(columns)
    stages: list[dict[Fold, list[int]]] = [
        {"freely": word, "names": word, "at blanks": whole, "last": line},
        {"freely": part, "names": word, "at blanks": whole, "last": line},
        {"freely": head, "names": word, "at blanks": whole, "last": line},
        {"freely": part, "names": word, "at blanks": whole, "last": word},
        {"freely": head, "names": word, "at blanks": whole, "last": word},
        {"freely": head, "names": cell, "at blanks": whole, "last": word},
        {"freely": head, "names": cell, "at blanks": word, "last": word},
    ]
    for limit in range(WORD, 0, -1):
        names = [min(length, limit) for length in cell]
        stages += [{"freely": few, "names": names, "at blanks": word, "last": word}]
    for stage in stages:
        least = [stage[fold][place] for place, fold in enumerate(folds)]
        if sum(least) <= room:
            return least
    return none


def _widest(cells: Sequence[str]) -> int:
    return max(map(cell_len, cells), default=1) or 1


def _longest_word(cells: Sequence[str]) -> int:
    lengths = map(cell_len, " ".join(cells).split())
    return max((length for length in lengths if length <= WORD), default=1)
