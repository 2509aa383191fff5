"""What programs get as CSV: fractions, one thing a line, one value a cell."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from cse_platform.leaderboard.published.paper_tables import PaperTable
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.board_data import board_columns, board_values
from cse_platform.leaderboard.render.records import Record
from cse_platform.leaderboard.statistics.results import Comparison, Matrix

Lines = tuple[Sequence[str], Iterable[Record]]
"""The names of the columns, and each line by them; what a line lacks is empty."""

AS_JSON = ("values", "keys", "searched")
"""Columns of a board that hold an object or a list of names."""
COMPARISON = (
    *("a", "b", "n_a", "n_b", "task", "mean_a", "mean_b", "effect", "interval_low"),
    *("interval_high", "interval_over", "p", "p_holm", "williams_t", "williams_p"),
    *("williams_p_holm", "pairs"),
)
MATRIX = ("a", "b", "effect", "p", "p_holm")
PAPER = (
    *("paper", "table", "backbone", "method", "label", "column", "published", "published_std"),
    *("configuration", "n", "ours", "ours_std"),
)


def board_lines(board: Board) -> Lines:
    """A line a row, ours and then published ones."""

    def each() -> Iterator[Record]:
        for line in board_values(board):
            yield {name: _cell(name, value) for name, value in line.items()}

    return list(board_columns(board)), each()


def comparison_lines(comparison: Comparison) -> Lines:
    """A line for each task, then the average."""

    def each() -> Iterator[Record]:
        names = {name: getattr(comparison, name) for name in COMPARISON[:4]}
        for task in (*comparison.tasks, *filter(None, (comparison.average,))):
            cells = asdict(task)
            interval = cells.pop("interval") or {}
            yield names | cells | {f"interval_{name}": end for name, end in interval.items()}

    return COMPARISON, each()


def matrix_lines(matrix: Matrix) -> Lines:
    """A line for each ordered pair."""

    def each() -> Iterator[Record]:
        for row, a in enumerate(matrix.names):
            for column, b in enumerate(matrix.names):
                numbers = (
                    table[row][column] for table in (matrix.effects, matrix.p, matrix.p_holm)
                )
                if row != column:
                    yield dict(zip(MATRIX, (a, b, *numbers), strict=True))

    return MATRIX, each()


def paper_lines(table: PaperTable) -> Lines:
    """A line for each number that is printed or is ours."""

    def each() -> Iterator[Record]:
        for line in table.lines:
            for column in dict.fromkeys((*line.published, *line.ours)):
                ours = line.ours.get(column)
                yield {
                    "paper": table.paper,
                    "table": table.table,
                    "backbone": line.backbone,
                    "method": line.method,
                    "label": line.label,
                    "column": column,
                    "published": line.published.get(column),
                    "published_std": line.published_std.get(column),
                    "configuration": line.configuration if ours else None,
                    "n": ours.n if ours else None,
                    "ours": ours.mean if ours else None,
                    "ours_std": ours.std if ours else None,
                }

    return PAPER, each()


def _cell(name: str, value: Any) -> Any:
    """As text: numbers of a list with blanks between, texts with semicolons."""
    if name in AS_JSON or isinstance(value, bool):
        return "" if value is None else json.dumps(value, sort_keys=True)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        between = "; " if any(isinstance(one, str) for one in value) else " "
        return between.join(map(str, value))
    return value
