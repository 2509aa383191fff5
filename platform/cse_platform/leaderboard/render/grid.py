"""What a table for people is made of, whichever form it is written in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Literal

from cse_platform.folding import Fold

Emphasis = Literal["none", "best", "second"]


@dataclass(frozen=True)
class Cell:
    """One cell."""

    text: str = ""
    spread: str = ""
    """A standard deviation, without its sign."""
    mark: str = ""
    """Of a note, or of several with blanks between."""
    emphasis: Emphasis = "none"
    """Of `text`."""
    link: str = ""
    """Where `text` leads to, in the forms that have links: Markdown."""

    @property
    def plain(self) -> str:
        """All of it in one line of characters."""
        spread = f"±{self.spread}" if self.spread else ""
        return " ".join(filter(None, (self.text, spread, self.mark)))


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    name: str
    align: Literal["left", "right"] = "left"
    folds: Fold = "freely"
    """How its cells give way on a terminal that is too narrow."""


@dataclass(frozen=True)
class Row:
    """As many cells as there are columns; the first names the row."""

    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Rule:
    """A line between two groups of rows."""


@dataclass(frozen=True)
class Grid:
    """One table."""

    title: str
    columns: tuple[Column, ...]
    lines: tuple[Row | Rule, ...]
    notes: tuple[str, ...] = ()
    """What stands below it."""
    legend: Mapping[str, str] = field(default_factory=dict)
    """What the marks of cells mean; those that no cell bears are left out."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The lines that hold cells."""
        return tuple(line for line in self.lines if isinstance(line, Row))

    @property
    def told(self) -> tuple[str, ...]:
        """Notes, and the meaning of each mark that is there."""
        marks = {mark for row in self.rows for cell in row.cells for mark in cell.mark.split()}
        kept = (f"{mark} {means}" for mark, means in self.legend.items() if mark in marks)
        return (*kept, *self.notes)

    def without_empty_columns(self) -> "Grid":
        """The same grid, but for the columns that say nothing."""
        kept = [any(row.cells[i].plain for row in self.rows) for i in range(len(self.columns))]

        def shorter() -> Iterator[Row | Rule]:
            for line in self.lines:
                yield Row(tuple(compress(line.cells, kept))) if isinstance(line, Row) else line

        columns = tuple(compress(self.columns, kept))
        return replace(self, columns=columns, lines=tuple(shorter()))
