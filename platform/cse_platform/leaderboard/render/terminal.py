"""Grids on a terminal: folded, never cut."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cse_platform import folding
from cse_platform.leaderboard.render.grid import Cell, Emphasis, Grid, Row

WIDTH = 100
STYLES: dict[Emphasis, str] = {"none": "", "best": "bold", "second": "underline"}


def show(grids: Sequence[Grid], *, wide: bool) -> None:
    """Print grids to standard output.

    A note that several grids share stands below the first of them only.

    Args:
        grids: in the order in which they shall stand.
        wide: as wide as they are; otherwise within 100 columns, or within the terminal where it is
            narrower, and what does not fit is folded.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    room = min(console.width, WIDTH) if console.is_terminal else WIDTH
    said: set[str] = set()
    with folding.trimmed(console):
        for place, grid in enumerate(grids):
            needed = folding.natural_width(_columns(grid))
            console.width = max(needed, room) if wide else room
            if place:
                console.print()
            console.print(grid.title, style="bold")
            console.print(_table(grid, console.width))
            for note in grid.told:
                if note not in said:
                    console.print(note)
            said.update(grid.told)


def _columns(grid: Grid) -> list[list[str]]:
    """Of each column its head and its cells."""
    cells = ([row.cells[i].plain for row in grid.rows] for i in range(len(grid.columns)))
    return [[column.name, *texts] for column, texts in zip(grid.columns, cells, strict=True)]


def _table(grid: Grid, width: int) -> Table:
    table = folding.table()
    folds = [column.folds for column in grid.columns]
    widths = folding.widths(_columns(grid), width, folds=folds)
    for column, room in zip(grid.columns, widths, strict=True):
        table.add_column(Text(column.name), justify=column.align, overflow="fold", width=room)
    for line in grid.lines:
        if isinstance(line, Row):
            table.add_row(*map(_text, line.cells))
        else:
            table.add_section()
    return table


def _text(cell: Cell) -> Text:
    rest = cell.plain.removeprefix(cell.text)
    return Text.assemble((cell.text, STYLES[cell.emphasis]), rest)
