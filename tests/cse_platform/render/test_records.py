"""JSON and CSV: fractions, and everything that is known."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cse_platform.leaderboard.published.papers import PaperLine, PaperTable
from cse_platform.leaderboard.records import Gap
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.statistics.results import Interval, Matrix, RankInterval

MATRIX = Matrix(
    ("a", "b"), ((0.0, 0.02), (-0.02, 0.0)), ((None, 0.01), (0.01, None)), ((None, 0.01),) * 2
)


@pytest.fixture
def board(row, estimate, published) -> Board:
    """One row of each kind."""
    costs = {"epoch_minutes": estimate(20.5, 21.5), "sentences_per_second": estimate(800, 900)}
    costs["host_memory_gib"] = estimate(2.5, 4.0)
    ours = row(
        {"avg_sts": estimate(0.75, 0.77, interval=Interval(0.7, 0.8, "seeds"), source="hub")},
        test_opened=datetime(2030, 1, 1, 12, tzinfo=UTC),
        rank=RankInterval(1, 2, 3),
        gap=Gap("avg_sts", 0.8, "rankcse table2", -0.04, True),
        costs=costs,
        epochs=0.5,
    )
    paper = published({"avg_sts": 0.8}, settings={"rank_loss": "listnet"}, std={"avg_sts": 0.001})
    return Board([ours], [paper])


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_json_of_a_board(written, board) -> None:
    ours, paper = json.loads(written(board, "json"))
    assert ours.pop("dev_std") == pytest.approx(0.02 / 2**0.5)
    assert ours.pop("test_std") == {"avg_sts": pytest.approx(0.02 / 2**0.5)}
    expected = {
        "dev_mean": 0.84, "dev_best": 0.85, "headline": "avg_sts",
        "rank": {"best": 1, "worst": 2, "among": 3},
        "gap": {"column": "avg_sts", "published": 0.8, "source": "rankcse table2",
                "difference": -0.04, "inside": True},
        "test": {"avg_sts": 0.76}, "test_interval": {"avg_sts": [0.7, 0.8, "seeds"]},
        "test_best": {"avg_sts": 0.77}, "test_seeds": {"avg_sts": 2},
        "test_source": {"avg_sts": "hub"}, "test_values": {"avg_sts": {"1": 0.75, "2": 0.77}},
        "evaluation": {"avg_sts": "e1"}, "test_opened": "2030-01-01T12:00:00+00:00",
        "gpu_hours": 12.25, "train_minutes": None, "epoch_minutes": 21.0,
        "sentences_per_second": 850.0, "gpu_memory_gib": None,
        "host_memory_gib": 4.0,  # the most of any seed
        "epochs": 0.5, "tags": ["main"], "released": None, "trained_from": None,
    }  # fmt: skip
    assert {name: ours[name] for name in expected} == expected
    assert paper == {
        "published": True, "method": "simcse", "backbone": "bert-base", "system": "simcse",
        "sources": ["rankcse table2"], "settings": {"rank_loss": "listnet"}, "split": "test",
        "scores": {"avg_sts": 0.8}, "scores_std": {"avg_sts": 0.001}, "unstated": [],
    }  # fmt: skip


def test_nothing_is_an_empty_list_or_a_head(written) -> None:
    assert json.loads(written(Board([]), "json")) == []
    assert written(Board([]), "csv").startswith("published,method,backbone,sweep,")
    assert (written(Board([]), "table"), written(Board([]), "latex")) == ("", "")


def test_a_single_seed_has_no_deviation(written, row, estimate) -> None:
    (told,) = json.loads(written(Board([row(dev_score=estimate(0.5), seeds=[7])]), "json"))
    assert (told["dev_mean"], told["dev_std"], told["headline"]) == (0.5, None, None)


def test_a_comparison(written, comparison) -> None:
    told = json.loads(written(comparison, "json"))
    assert (told["a"], told["n_a"], told["notes"]) == ("rankcse", 3, ["a note of the statistics"])
    assert told["tasks"][0]["interval"] == {"low": 0.01, "high": 0.03, "over": "seeds"}
    assert told["average"]["effect"] == 0.0125
    first, second, average = read(written(comparison, "csv"))
    assert first["task"] == "sts12" and float(first["williams_t"]) == 4.125
    assert (float(second["interval_low"]), second["interval_over"]) == (-0.01, "seeds")
    assert (average["task"], average["p"], average["williams_t"]) == ("avg_sts", "0.004", "")
    unsure = replace(comparison.tasks[0], interval=None)
    without = replace(comparison, average=None, tasks=(unsure,))
    assert read(written(without, "csv"))[0]["interval_low"] == ""


def test_a_matrix(written) -> None:
    told = json.loads(written(MATRIX, "json"))
    assert told["names"] == ["a", "b"] and told["effects"][1] == [-0.02, 0.0]
    lines = [list(line.values()) for line in read(written(MATRIX, "csv"))]
    assert lines == [["a", "b", "0.02", "0.01", "0.01"], ["b", "a", "-0.02", "0.01", ""]]


def test_a_papers_table(written, estimate) -> None:
    line = PaperLine(
        *("bert-base", "rankcse", "rank_loss=listnet", {"avg_sts": 0.8, "train_minutes": 87.5}),
        *({"avg_sts": 0.001}, {"avg_sts": estimate(0.7, 0.8)}, "c" * 64),
    )
    table = PaperTable("rankcse", "table2", ("avg_sts", "train_minutes"), (line,), ("told",))
    (told,) = json.loads(written(table, "json"))["lines"]
    assert told["published"] == {"avg_sts": 0.8, "train_minutes": 87.5}
    assert (told["ours"], told["n"]) == ({"avg_sts": 0.75}, 2)
    assert told["ours_values"] == {"avg_sts": {"1": 0.7, "2": 0.8}}
    score, minutes = read(written(table, "csv"))
    shown = [score[name] for name in ("published", "published_std", "ours", "n")]
    assert shown == ["0.8", "0.001", "0.75", "2"]
    shown = [minutes[name] for name in ("column", "published", "ours")]
    assert shown == ["train_minutes", "87.5", ""]
