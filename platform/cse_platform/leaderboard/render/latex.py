r"""Grids as LaTeX tables: booktabs is all they need."""

import re
from collections.abc import Iterator, Sequence

from cse_platform.leaderboard.render.grid import Cell, Emphasis, Grid, Row

EMPHASIS: dict[Emphasis, str] = {
    "none": "{}",
    "best": r"\textbf{{{}}}",
    "second": r"\underline{{{}}}",
}
ALIGN = {"left": "l", "right": "r"}
MARKS = {"†": r"\dagger", "‡": r"\ddagger", "§": r"\S", " ": r"\,"}
SPECIAL = {
    **{character: rf"\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "−": "$-$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "§": r"\S{}",
    # After a line's end these two would be read as its options.
    "[": "{[}",
    "*": "{*}",
}
NEEDED = r"% needs \usepackage{booktabs}"
COLUMN = 7
"""Tables with more columns go across both columns of a page, where it has two."""
LONG = 24
"""Longer texts are broken into lines."""
BROKEN = r"p{0.22\linewidth}"
NEGATIVE = re.compile(r"(?<!\w)-(?=\d)")
"""A hyphen would be set for it."""


def written(grids: Sequence[Grid]) -> str:
    """A floating table for each grid, with caption, label and notes; nothing where there is none.

    Best numbers are bold, second ones underlined, standard deviations small after a plus-minus
    sign, and marks raised.
    """
    tables = ["\n".join(_grid(grid)) + "\n" for grid in grids]
    return "\n".join((f"{NEEDED}\n", *tables)) if tables else ""


def _grid(grid: Grid) -> Iterator[str]:
    aligned = [_aligned(grid, place) for place in range(len(grid.columns))]
    table = "table*" if len(aligned) > COLUMN or BROKEN in aligned else "table"
    yield from (rf"\begin{{{table}}}[t]", r"\centering", r"\footnotesize")
    yield rf"\setlength{{\tabcolsep}}{{{'3pt' if table == 'table' else '2pt'}}}"
    yield rf"\caption{{{_escaped(grid.title)}}}"
    yield rf"\label{{tab:{_slug(grid.title)}}}"
    yield rf"\begin{{tabular}}{{@{{}}{''.join(aligned)}@{{}}}}"
    yield r"\toprule"
    yield _line(_escaped(column.name) for column in grid.columns)
    yield r"\midrule"
    for line in grid.lines:
        yield _line(map(_cell, line.cells)) if isinstance(line, Row) else r"\midrule"
    yield from (r"\bottomrule", r"\end{tabular}")
    yield from (rf"\par\smallskip {_escaped(note)}" for note in grid.told)
    yield rf"\end{{{table}}}"


def _aligned(grid: Grid, place: int) -> str:
    align = grid.columns[place].align
    longest = max((len(row.cells[place].plain) for row in grid.rows), default=0)
    return BROKEN if align == "left" and longest > LONG else ALIGN[align]


def _line(cells: Iterator[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _cell(cell: Cell) -> str:
    text = EMPHASIS[cell.emphasis].format(_escaped(cell.text)) if cell.text else ""
    spread = rf"_{{\pm {cell.spread}}}" if cell.spread else ""
    mark = "".join(MARKS.get(character, character) for character in cell.mark)
    beside = spread + (f"^{{{mark}}}" if mark else "")
    return f"{text}${beside}$" if beside else text


def _escaped(text: str) -> str:
    """One line in which no character has a meaning."""
    return "".join(
        SPECIAL.get(character, character)
        for character in NEGATIVE.sub("−", re.sub(r"\s+", " ", text))
    )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
