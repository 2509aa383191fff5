import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean, stdev
from typing import Any

import pytest

from cse_platform.cli.common import print_document
from cse_platform.leaderboard.board_tables import board_document
from cse_platform.leaderboard.columns import Board
from cse_platform.leaderboard.comparisons import comparison_document, matrix_document
from cse_platform.leaderboard.papers import PaperTable, paper_document
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import Configuration, DevSets, Estimate, LeaderboardRow
from cse_platform.leaderboard.statistics.compare import Comparison, Matrix, TaskComparison
from cse_platform.leaderboard.statistics.intervals import Interval
from cse_platform.render.table import Document
from cse_platform.render.text import Format


@pytest.fixture(scope="session")
def estimate() -> Callable[..., Estimate]:
    """Makes a score over seeds 1, 2, … that are `values`."""

    def make(
        *values: float, identity: str = "e1", interval: Interval | None = None, source: str = ""
    ) -> Estimate:
        std = stdev(values) if len(values) > 1 else None
        seeds = dict(enumerate(values, start=1))
        return Estimate(seeds, fmean(values), std, max(values), interval, identity, source)

    return make


@pytest.fixture(scope="session")
def row(estimate) -> Callable[..., LeaderboardRow]:
    """Makes a row of two seeds, on real data and ranked by `avg_sts` unless told otherwise."""

    def make(scores: Mapping[str, Estimate] | None = None, **changes: Any) -> LeaderboardRow:
        values = {"temperature": 0.05}
        plain = LeaderboardRow(
            method="simcse", backbone="bert-base", sweep="simcse-bert", corpus="wiki1m",
            configuration=Configuration("b" * 64, values, [*values], code="c" * 64),
            seeds=[1, 2], keys={1: "1" * 64, 2: "2" * 64}, trials=40, gpu_hours=12.25,
            dev=DevSets("stsb", "stsb", "d1", "senteval"), dev_untrained=0.5,
            dev_score=estimate(0.83, 0.85, identity="d1"), wall_seconds=1900.0,
            finished=datetime(2030, 1, 2, 12, tzinfo=UTC), machines=["here (A100)"],
            tags=["main"], scores=dict(scores or {}),
            headline="avg_sts" if scores and "avg_sts" in scores else None,
        )  # fmt: skip
        return replace(plain, **changes)

    return make


@pytest.fixture(scope="session")
def published() -> Callable[..., PublishedRow]:
    """Makes a row of a paper's table."""

    def make(scores: Mapping[str, float], **changes: Any) -> PublishedRow:
        plain = PublishedRow(
            paper="rankcse", table="table2", backbone="bert-base", system="simcse",
            method="simcse", settings={}, configuration={}, split="test", scores=dict(scores),
            std={}, sources=("rankcse table2",),
        )  # fmt: skip
        return replace(plain, **changes)

    return make


@pytest.fixture(scope="session")
def comparison() -> Comparison:
    """A is above B on STS12 and on average, not beyond chance on STS13."""
    low, high = Interval(0.01, 0.03, "seeds"), Interval(-0.01, 0.02, "seeds")
    return Comparison(
        "rankcse",
        "simcse",
        3,
        2,
        (
            TaskComparison("sts12", 0.72, 0.70, 0.02, low, 0.02, 0.04, 4.125, 0.0001, 0.0002, 3108),
            TaskComparison("sts13", 0.8, 0.795, 0.005, high, 0.4, 0.4, 1.25, 0.21, 0.21, 1500),
        ),
        TaskComparison("avg_sts", 0.76, 0.7475, 0.0125, low, 0.004, None, None, None, None, None),
        ("a note of the statistics",),
        ("A: rankcse@abc on mini, seeds 0 1 2", "B: simcse@def on mini, seeds 0 1"),
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
        print_document(DOCUMENTS[type(answer)](answer), format=format, wide=wide)
        return capsys.readouterr().out

    return of


@pytest.fixture
def lines(written) -> Callable[..., list[str]]:
    """The lines that are no terminal's, with single blanks; a line between rows is `---`."""

    def of(answer: Answer, *, wide: bool = False) -> list[str]:
        printed = written(answer, "table", wide=wide).splitlines()
        assert not any(line.endswith(" ") for line in printed)
        return [re.sub("─+", "---", re.sub(r"\s+", " ", line)).strip() for line in printed]

    return of


@pytest.fixture(scope="session")
def titled() -> Callable[[list[str], str], list[str]]:
    """The lines of one table: what stands below its title."""

    def of(lines: list[str], title: str) -> list[str]:
        start = lines.index(title) + 1
        return lines[start : [*lines, ""].index("", start)]

    return of
