"""Whatever a leaderboard says, in any form, on standard output."""

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cse_platform.leaderboard.published.paper_tables import PaperTable
from cse_platform.leaderboard.render import html, latex, lines, markdown, records, terminal
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.board_grid import board_grids
from cse_platform.leaderboard.render.comparison_grid import comparison_grid, matrix_grid
from cse_platform.leaderboard.render.grid import Grid
from cse_platform.leaderboard.render.paper_grid import paper_grid
from cse_platform.leaderboard.statistics.results import Comparison, Matrix

TextForm = Literal["json", "csv", "markdown", "latex", "html"]
Form = TextForm | Literal["table"]
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
TEXT: dict[TextForm, Callable[[Sequence[Grid]], str]] = {
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
    if form == "table":
        terminal.show(KINDS[type(document)].grids(document, wide), wide=wide)
    else:
        sys.stdout.write(told(document, form=form, wide=wide))
    sys.stdout.flush()


def told(document: Document, *, form: TextForm, wide: bool = False) -> str:
    """The same as a text, which ends in a line break.

    Args:
        document: as for `write`.
        form: the same; the table of a terminal is none.
        wide: as for `write`.
    """
    kind = KINDS[type(document)]
    if form == "json":
        return json.dumps(kind.record(document), indent=2) + "\n"
    if form == "csv":
        names, rows = kind.lines(document)
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()
    return TEXT[form](kind.grids(document, wide))
