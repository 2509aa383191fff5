"""Headings, paragraphs, tables and curves: for a terminal, or as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as Grid

from cse_platform import folding
from cse_platform.curve_chart import Point, chart

WIDTH = 120
"""Columns of text where there is no terminal to ask."""


@dataclass(frozen=True)
class Heading:
    """The title of what follows, up to the next heading of its level."""

    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of equal length under a head; the first column holds names."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def without_empty_columns(self) -> "Table":
        """The same table, but for the columns that say nothing."""
        kept = [i for i in range(len(self.head)) if any(row[i] for row in self.rows)]
        return Table(
            tuple(self.head[i] for i in kept),
            tuple(tuple(row[i] for i in kept) for row in self.rows),
        )


@dataclass(frozen=True)
class Curve:
    """A dev curve; at least one of its points has a value."""

    points: tuple[Point, ...]
    """(step, fraction) in order of steps; None is a gap."""
    best: int | None
    """The step to mark."""


Block = Heading | Paragraph | Table | Curve
Page = Sequence[Block]


def show(page: Page) -> None:
    """Print a page as wide as the terminal; cells are folded, never cut."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH
    with folding.trimmed(console):
        for block in page:
            match block:
                case Heading(text, _):
                    console.print(text, style="bold")
                case Paragraph(text):
                    console.print(text)
                case Table():
                    console.print(_grid(block, console.width))
                case Curve(points, best):
                    console.print(chart(points, best=best))
            console.print()


def markdown(page: Page) -> str:
    """A page as Markdown; tables as GitHub has them."""
    return "\n\n".join(map(_markdown, page)) + "\n"


def _grid(table: Table, width: int) -> Grid:
    grid = folding.table()
    columns = list(zip(table.head, *table.rows, strict=True))
    for name, room in zip(table.head, folding.widths(columns, width), strict=True):
        grid.add_column(name, overflow="fold", width=room)
    for row in table.rows:
        grid.add_row(*row)
    return grid


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Table(head, rows):
            named = [(f"`{name}`", *cells) for name, *cells in rows]
            lines = [head, ("---",) * len(head), *named]
            return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
        case Curve(points, best):
            return f"```\n{chart(points, best=best)}\n```"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
