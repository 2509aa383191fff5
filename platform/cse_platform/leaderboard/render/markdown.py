"""Grids as Markdown tables, as GitHub has them."""

import re
from collections.abc import Iterator, Sequence

from cse_platform.leaderboard.render.grid import Cell, Emphasis, Grid

EMPHASIS: dict[Emphasis, str] = {"none": "{}", "best": "**{}**", "second": "<u>{}</u>"}
RULES = {"left": ":---", "right": "---:"}
SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#])")


def written(grids: Sequence[Grid]) -> str:
    """Each grid under a heading, best numbers bold and second ones underlined.

    Markdown has no rules between rows; groups follow each other.
    """
    return "\n\n".join("\n".join(_grid(grid)) for grid in grids) + "\n"


def _grid(grid: Grid) -> Iterator[str]:
    yield f"### {escaped(grid.title)}\n"
    yield _line(escaped(column.name) for column in grid.columns)
    yield _line(RULES[column.align] for column in grid.columns)
    yield from (_line(map(_cell, row.cells)) for row in grid.rows)
    yield from (f"\n{escaped(note)}" for note in grid.told)


def _line(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text, rest = escaped(cell.text), escaped(cell.plain.removeprefix(cell.text))
    shown = EMPHASIS[cell.emphasis].format(text) if text else ""
    return (f"[{shown}]({cell.link})" if cell.link else shown) + rest


def escaped(text: str) -> str:
    """One line in which no character has a meaning."""
    return SPECIAL.sub(r"\\\1", re.sub(r"\s+", " ", text))
