import re
from collections.abc import Callable
from typing import Any

import pytest

from cse_platform.cli.common import print_document
from cse_platform.leaderboard.papers import PaperTable
from cse_platform.leaderboard.statistics.compare import Comparison, Matrix, TaskComparison
from cse_platform.leaderboard.statistics.intervals import Interval
from cse_platform.presentation.board import board_document, board_tables
from cse_platform.presentation.board_entries import Board
from cse_platform.presentation.comparison import comparison_document, matrix_document
from cse_platform.presentation.formats import Format
from cse_platform.presentation.paper import paper_document
from cse_platform.presentation.tables import Document
from cse_platform.presentation.terminal import print_page


@pytest.fixture(scope="session")
def comparison() -> Comparison:
    """A is above B on STS12 and on average, not beyond chance on STS13."""
    low, high = Interval(0.01, 0.03, "seeds"), Interval(-0.01, 0.02, "seeds")
    return Comparison(
        "rankcse",
        "simcse",
        (
            TaskComparison(
                "sts12", 0.72, 0.70, 3, 2, 0.02, low, 0.02, 0.04, 4.125, 0.0001, 0.0002, 3108
            ),
            TaskComparison(
                "sts13", 0.8, 0.795, 3, 2, 0.005, high, 0.4, 0.4, 1.25, 0.21, 0.21, 1500
            ),
        ),
        TaskComparison(
            "avg_sts", 0.76, 0.7475, 3, 2, 0.0125, low, 0.004, None, None, None, None, None
        ),
    )


Answer = Board | Comparison | Matrix | PaperTable
DOCUMENTS: dict[type, Callable[[Any], Document]] = {
    Board: board_document,
    Comparison: comparison_document,
    Matrix: matrix_document,
    PaperTable: paper_document,
}


@pytest.fixture
def written(capsys) -> Callable[..., str]:
    """What is written of a document."""

    def of(answer: Answer, format: Format, *, wide: bool = False) -> str:
        options = {"wide": wide} if isinstance(answer, Board) else {}
        document = DOCUMENTS[type(answer)](answer, **options)
        print_document(document, format=format, wide=wide)
        return capsys.readouterr().out

    return of


@pytest.fixture
def lines(written, capsys) -> Callable[..., list[str]]:
    """The lines that are no terminal's, with single blanks; a line between rows is `---`."""

    def of(answer: Answer, *, wide: bool = False) -> list[str]:
        if isinstance(answer, Board) and not wide:
            print_page(board_tables(answer))
            printed = capsys.readouterr().out.splitlines()
        else:
            printed = written(answer, "table", wide=wide).splitlines()
        assert not any(line.endswith(" ") for line in printed)
        return [re.sub("─+", "---", re.sub(r"\s+", " ", line)).strip() for line in printed]

    return of
