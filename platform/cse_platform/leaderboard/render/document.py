"""A board, a comparison, a matrix, a paper's table or all of them, a front, in any format."""

import sys
from typing import Any, Literal

from cse_platform.leaderboard.published.paper_files import PaperProgress
from cse_platform.leaderboard.published.paper_tables import PaperTable
from cse_platform.leaderboard.query.sweeps.front import ParetoFront
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.board_data import board_records, data_columns, data_rows
from cse_platform.leaderboard.render.board_tables import board_tables
from cse_platform.leaderboard.render.comparison import (
    comparison_csv,
    comparison_table,
    matrix_csv,
    matrix_table,
)
from cse_platform.leaderboard.render.front import front_csv, front_record, front_table
from cse_platform.leaderboard.render.paper import (
    paper_csv,
    paper_layout,
    paper_record,
    papers_csv,
    papers_layout,
)
from cse_platform.leaderboard.render.paper_board import paper_board
from cse_platform.leaderboard.statistics.results import Comparison, Matrix
from cse_platform.render.serialise import to_csv, to_json
from cse_platform.render.table import Table
from cse_platform.render.terminal import print_page
from cse_platform.render.text import to_html, to_latex, to_markdown

TextFormat = Literal["json", "csv", "markdown", "latex", "html"]
Format = TextFormat | Literal["table"]
Document = Board | Comparison | Matrix | PaperTable | list[PaperProgress] | ParetoFront


def print_document(document: Document, *, format: Format, wide: bool = False) -> None:
    """Write a document to standard output.

    The formats `json` and `csv` are fractions for programs; the others are x 100, for people. A
    wide leaderboard is one table with everything, and nothing is folded; otherwise Markdown and
    LaTeX have it as papers print it.
    """
    if format == "table":
        print_page(document_tables(document, wide=wide), wide=wide)
    else:
        sys.stdout.write(render_document(document, format=format, wide=wide))
        sys.stdout.flush()


def render_document(document: Document, *, format: TextFormat, wide: bool = False) -> str:
    """A document as text that ends in a line break."""
    if format == "json":
        return to_json(_record(document))
    if format == "csv":
        return _csv(document)
    if isinstance(document, Board) and format != "html" and not wide:
        return _TEXTS[format](paper_board(document))
    return _TEXTS[format](document_tables(document, wide=wide))


_TEXTS = {"markdown": to_markdown, "latex": to_latex, "html": to_html}


def document_tables(document: Document, *, wide: bool) -> list[Table]:
    """The tables of a document for people; `wide` is as for `print_document`."""
    match document:
        case Board():
            return board_tables(document, wide=wide)
        case Comparison():
            return [comparison_table(document)]
        case Matrix():
            return [matrix_table(document)]
        case PaperTable():
            return [paper_layout(document)]
        case list():
            return papers_layout(document)
        case ParetoFront():
            return [front_table(document)]


def _record(document: Document) -> Any:
    match document:
        case Board():
            return board_records(document)
        case PaperTable():
            return paper_record(document)
        case ParetoFront():
            return front_record(document)
    return document


def _csv(document: Document) -> str:
    match document:
        case Board():
            return to_csv(data_columns(document), data_rows(document))
        case Comparison():
            return comparison_csv(document)
        case Matrix():
            return matrix_csv(document)
        case PaperTable():
            return paper_csv(document)
        case list():
            return papers_csv(document)
        case ParetoFront():
            return front_csv(document)
