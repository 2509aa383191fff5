"""A board as CSV and as a frame: one value a cell, ours and published ones in the same columns."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import Gap, LeaderboardRow
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.render.columns import data_columns, data_rows
from cse_platform.leaderboard.statistics.results import Interval, RankInterval
from cse_platform.render.table import to_record


@pytest.fixture
def ours(row, estimate) -> LeaderboardRow:
    """One with everything."""
    score = estimate(0.75, 0.77, interval=Interval(0.7, 0.8, "seeds"), source="hub")
    return row(
        {"avg_sts": score, "mr": estimate(0.5)},
        test_opened=datetime(2030, 1, 1, 12, tzinfo=UTC),
        rank=RankInterval(1, 2, 3),
        gap=Gap("avg_sts", 0.8, "rankcse table2", -0.04, True),
        machines=["here (A100)", "there"],
    )


@pytest.fixture
def paper(published) -> PublishedRow:
    """A published row with a deviation, on a task that ours lacks too."""
    return published(
        {"sts12": 0.7, "avg_sts": 0.8, "sts13_kcc": 0.4},
        settings={"rank_loss": "listnet", "seeds": "5"},
        std={"avg_sts": 0.001},
        sources=("rankcse table2", "hicl table1"),
    )


def names(board: Board) -> list[str]:
    return [column.name for column in data_columns(board)]


def values(board: Board) -> list[dict[str, Any]]:
    return [to_record(data_columns(board), row) for row in data_rows(board)]


def test_csv_by_hand(written, ours, paper) -> None:
    mine, theirs = csv.DictReader(io.StringIO(written(Board([ours], [paper]), "csv")))
    for name in ("dev_std", "avg_sts_std"):
        assert float(mine.pop(name)) == pytest.approx(0.02 / 2**0.5)
    told = {
        "published": "false", "values": '{"temperature": 0.05}', "searched": '["temperature"]',
        "seeds": "1 2", "n": "2", "keys": json.dumps({"1": "1" * 64, "2": "2" * 64}),
        "dev_mean": "0.84", "dev_best": "0.85", "headline": "avg_sts", "evaluation": "e1",
        "source": "hub", "best_of_n": "0.77", "rank_best": "1", "rank_worst": "2",
        "rank_among": "3", "gap": "-0.04", "gap_published": "0.8", "gap_source": "rankcse table2",
        "gap_inside": "true", "test_opened": "2030-01-01T12:00:00+00:00", "wall_seconds": "1900.0",
        "machines": "here (A100); there", "split": "test", "avg_sts": "0.76", "avg_sts_n": "2",
        "avg_sts_low": "0.7", "avg_sts_high": "0.8", "mr": "0.5", "mr_n": "1", "sts12": "",
    }  # fmt: skip
    assert {name: mine[name] for name in told} == told
    assert {name: cell for name, cell in theirs.items() if cell} == {
        "published": "true", "method": "simcse", "backbone": "bert-base", "n": "5",
        "system": "simcse", "sources": "rankcse table2; hicl table1",
        "settings": "rank_loss=listnet, seeds=5", "split": "test",
        "sts12": "0.7", "avg_sts": "0.8", "avg_sts_std": "0.001",
    }  # fmt: skip


def test_there_are_columns_for_what_rows_have_in_the_shown_families(ours, paper) -> None:
    def scores(board: Board) -> list[str]:
        return [name.removesuffix("_high") for name in names(board) if "_high" in name][1:]

    assert scores(Board([ours])) == ["avg_sts", "mr"]
    assert scores(Board([ours], [paper])) == ["sts12", "avg_sts", "mr"]
    assert scores(Board([], [paper], family="ranking")) == ["sts13_kcc"]
    every = ["sts12", "avg_sts", "mr", "sts13_kcc"]
    assert scores(Board([ours], [paper], family="ranking")) == every
    of_papers = {"system", "sources", "settings", "split", "unstated"}
    assert of_papers.isdisjoint(names(Board([ours])))
    assert of_papers <= set(names(Board([ours], [paper])))


def test_values_keep_their_type_and_missing_ones_are_none(ours, paper) -> None:
    board = Board([replace(ours, rank=None, gap=None)], [paper])
    mine, theirs = values(board)
    assert list(mine) == list(theirs) == names(board)
    assert (mine["published"], mine["n"], mine["seeds"]) == (False, 2, [1, 2])
    assert (mine["finished"], mine["values"]) == (ours.finished, {"temperature": 0.05})
    assert (mine["rank_best"], mine["gap_inside"], mine["sts12"]) == (None, None, None)
    assert (theirs["n"], theirs["sources"]) == (5, ["rankcse table2", "hicl table1"])


def test_a_board_of_dev_scores_has_no_evaluation(row) -> None:
    (mine,) = values(Board([row()]))
    assert (mine["headline"], mine["evaluation"], mine["best_of_n"]) == (None, None, None)
    assert (mine["dev_mean"], mine["dev_low"]) == (0.84, None)
