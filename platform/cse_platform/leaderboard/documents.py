"""Writes boards, comparisons, papers' tables, audits and Pareto fronts in any format."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cse_platform.leaderboard.audit import Audit, audit_csv, audit_records, audit_tables
from cse_platform.leaderboard.board_tables import board_tables, paper_board
from cse_platform.leaderboard.columns import Board, board_records, data_columns, data_rows
from cse_platform.leaderboard.comparisons import (
    comparison_csv,
    comparison_table,
    matrix_csv,
    matrix_table,
)
from cse_platform.leaderboard.paper_files import PaperProgress, papers_csv, papers_layout
from cse_platform.leaderboard.paper_tables import PaperTable, paper_csv, paper_layout, paper_record
from cse_platform.leaderboard.searches import ParetoFront, front_csv, front_record, front_table
from cse_platform.leaderboard.statistics.compare import Comparison, Matrix
from cse_platform.render.table import Table, to_csv, to_json
from cse_platform.render.terminal import print_page
from cse_platform.render.text import to_html, to_latex, to_markdown
from cse_platform.standard_streams import echo

TextFormat = Literal["json", "csv", "markdown", "latex", "html"]
Format = TextFormat | Literal["table"]
Document = Board | Comparison | Matrix | PaperTable | list[PaperProgress] | ParetoFront | Audit


def print_document(document: Document, *, format: Format, wide: bool = False) -> None:
    """Write a document to standard output.

    `json` and `csv` have fractions, for programs; the other formats have percentages, for people. A
    wide leaderboard is a table with all columns whose cells are not folded; otherwise, Markdown and
    LaTeX have the form that papers print.
    """
    if format == "table":
        print_page(document_tables(document, wide=wide), wide=wide)
    else:
        echo(render_document(document, format=format, wide=wide), nl=False)


def render_document(document: Document, *, format: TextFormat, wide: bool = False) -> str:
    """Render a document as text that ends in a line break."""
    kind = _KINDS[type(document)]
    if format == "json":
        return to_json(kind.record(document))
    if format == "csv":
        return kind.csv(document)
    if isinstance(document, Board) and format != "html" and not wide:
        return _TEXTS[format](paper_board(document))
    return _TEXTS[format](document_tables(document, wide=wide))


_TEXTS = {"markdown": to_markdown, "latex": to_latex, "html": to_html}


def document_tables(document: Document, *, wide: bool) -> list[Table]:
    """Make the tables of a document for people; `wide` is as for `print_document`."""
    return _KINDS[type(document)].tables(document, wide)


@dataclass(frozen=True)
class _Kind:
    """The writers of one kind of document."""

    tables: Callable[[Any, bool], list[Table]]
    """Makes the tables for people; the second argument is `wide`."""
    csv: Callable[[Any], str]
    record: Callable[[Any], Any] = lambda document: document
    """Makes the object to write as JSON."""


_KINDS: dict[type, _Kind] = {
    Board: _Kind(
        lambda board, wide: board_tables(board, wide=wide),
        lambda board: to_csv(data_columns(board), data_rows(board)),
        board_records,
    ),
    Comparison: _Kind(lambda comparison, _: [comparison_table(comparison)], comparison_csv),
    Matrix: _Kind(lambda matrix, _: [matrix_table(matrix)], matrix_csv),
    PaperTable: _Kind(lambda table, _: [paper_layout(table)], paper_csv, paper_record),
    list: _Kind(lambda papers, _: papers_layout(papers), papers_csv),
    ParetoFront: _Kind(lambda front, _: [front_table(front)], front_csv, front_record),
    Audit: _Kind(lambda audit, _: audit_tables(audit), audit_csv, audit_records),
}
