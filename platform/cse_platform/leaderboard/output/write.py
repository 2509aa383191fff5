"""Whatever a leaderboard says, in any form, on standard output."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cse_platform.leaderboard.output import html, latex, lines, markdown, records, terminal
from cse_platform.leaderboard.output.board import Board
from cse_platform.leaderboard.output.board_grid import board_grids
from cse_platform.leaderboard.output.comparison_grid import comparison_grid, matrix_grid
from cse_platform.leaderboard.output.grid import Grid
from cse_platform.leaderboard.output.paper_grid import paper_grid
from cse_platform.leaderboard.published.paper_tables import PaperTable
from cse_platform.leaderboard.statistics.results import Comparison, Matrix

Form = Literal["table", "json", "csv", "markdown", "latex", "html"]
Document = Board | Comparison | Matrix | PaperTable


@dataclass(frozen=True)
class Kind:
    """How one kind of document is told."""

    grids: Callable[[Any, bool], list[Grid]]
    """For people; whether wide."""
    record: Callable[[Any], Any]
    """For JSON."""
    lines: Callable[[Any], lines.Lines]
    """For CSV."""


KINDS: dict[type, Kind] = {
    Board: Kind(
        lambda board, wide: board_grids(board, wide=wide),
        records.board_records,
        lines.board_lines,
    ),
    Comparison: Kind(lambda one, _: [comparison_grid(one)], asdict, lines.comparison_lines),
    Matrix: Kind(lambda one, _: [matrix_grid(one)], asdict, lines.matrix_lines),
    PaperTable: Kind(lambda one, _: [paper_grid(one)], records.paper_record, lines.paper_lines),
}
TEXT: dict[Form, Callable[[Sequence[Grid]], str]] = {
    "markdown": markdown.written,
    "latex": latex.written,
    "html": html.written,
}


def write(document: Document, *, form: Form, wide: bool = False) -> None:
    """Write something to standard output.

    Args:
        document: a leaderboard, a comparison, a matrix of these, or a paper's table.
        form: `json` and `csv` are fractions for programs; the others are x 100, for people.
        wide: for people: nothing is folded, and a leaderboard is one table with everything.
    """
    kind = KINDS[type(document)]
    if form == "json":
        json.dump(kind.record(document), sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif form == "csv":
        names, rows = kind.lines(document)
        writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    elif form == "table":
        terminal.show(kind.grids(document, wide), wide=wide)
    else:
        sys.stdout.write(TEXT[form](kind.grids(document, wide)))
    sys.stdout.flush()
