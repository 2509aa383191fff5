"""Grids as a fragment of HTML that needs nothing around it."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from cse_platform.leaderboard.render.grid import Cell, Column, Emphasis, Grid, Row

EMPHASIS: dict[Emphasis, str] = {"none": "{}", "best": "<strong>{}</strong>", "second": "<u>{}</u>"}
TABLE = "border-collapse: collapse; font-variant-numeric: tabular-nums"
CELL = "padding: 0.2em 0.6em; text-align: {align}"
LINE = "border-top: 1px solid"


def written(grids: Sequence[Grid]) -> str:
    """A table with a caption for each grid, its notes below; best numbers strong, second ones <u>.

    The heads of columns and of rows carry their `scope`.
    """
    lines = (line for grid in grids for line in _grid(grid))
    return "\n".join(("<div>", *lines, "</div>", ""))


def _grid(grid: Grid) -> Iterator[str]:
    yield f'<table style="{TABLE}">'
    yield f"<caption>{escape(grid.title)}</caption>"
    heads = "".join(
        f'<th scope="col" style="{_style(column)}">{escape(column.name)}</th>'
        for column in grid.columns
    )
    yield f"<thead><tr>{heads}</tr></thead>"
    for are_rows, lines in groupby(grid.lines, lambda line: isinstance(line, Row)):
        if are_rows:
            yield f'<tbody style="{LINE}">'
            yield from (_row(line, grid.columns) for line in lines if isinstance(line, Row))
            yield "</tbody>"
    yield "</table>"
    yield from (f"<p>{escape(note)}</p>" for note in grid.told)


def _row(row: Row, columns: Sequence[Column]) -> str:
    (name, *cells), (first, *others) = row.cells, columns
    head = f'<th scope="row" style="{_style(first)}">{_inner(name)}</th>'
    rest = (
        f'<td style="{_style(column)}">{_inner(cell)}</td>'
        for cell, column in zip(cells, others, strict=True)
    )
    return f"<tr>{head}{''.join(rest)}</tr>"


def _inner(cell: Cell) -> str:
    text = EMPHASIS[cell.emphasis].format(escape(cell.text)) if cell.text else ""
    spread = f" ±{escape(cell.spread)}" if cell.spread else ""
    return f"{text}{spread}" + (f"<sup>{escape(cell.mark)}</sup>" if cell.mark else "")


def _style(column: Column) -> str:
    return CELL.format(align=column.align)
