import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from board_rows import estimate, published, row

from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard.papers import PaperLine, PaperTable
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import Estimate, Gap, LeaderboardRow
from cse_platform.leaderboard.statistics.compare import Limits, Matrix
from cse_platform.leaderboard.statistics.intervals import Interval, RankInterval
from cse_platform.presentation.board_entries import Board, data_columns
from cse_platform.presentation.comparison import verdict
from cse_platform.presentation.tables import Column, to_csv

ONE_SEED = "‡ Over the pairs, texts or queries of a single seed; other seeds may differ."


def test_what_follows_in_words(comparison, lines) -> None:
    average = comparison.average
    assert average is not None

    def said(**changes: object) -> str:
        (sentence,) = verdict(replace(comparison, average=replace(average, **changes)))
        return sentence

    below = {"effect": -0.02, "interval": Interval(-0.03, -0.01, "seeds"), "p": 0.0001}
    assert re.match(
        r"rankcse is below simcse: rankcse - simcse is -2.00 .* \[-3.00, -1.00\], p < 0.001\.$",
        said(**below),
    )
    assert re.match("rankcse and simcse cannot be distinguished: .* p = 0.050", said(p=0.05))
    opposed = said(effect=-0.0084, interval=Interval(-0.0286, 0.0123, "seeds"), p=0.34)
    assert "rankcse - simcse is -0.84 on avg_sts, 95 % interval [-2.86, 1.23]" in opposed
    unsure = said(p=None, interval=None)
    assert unsure.startswith("rankcse - simcse is +1.25 on avg_sts; ") and "p =" not in unsure
    first, second = verdict(replace(comparison, average=None))
    assert first.startswith("rankcse is above simcse: rankcse - simcse is +2.00 on sts12, ")
    assert first.endswith(" after Holm's correction.") and "Holm" not in said()
    assert second.startswith("rankcse and simcse cannot be distinguished") and "sts13" in second
    (one,) = verdict(replace(comparison, average=None, tasks=comparison.tasks[:1]))
    assert "Holm" not in one  # nothing to correct for
    over = replace(average, n_b=1, interval=Interval(0.01, 0.03, "examples"))
    alone = replace(comparison, average=over)
    [said_alone] = verdict(alone)
    assert said_alone.startswith("With one seed of simcse, rankcse is above simcse: ")
    told = lines(alone)
    assert "avg_sts 76.00 74.75 +1.25 [1.00, 3.00] ‡ 0.004" in told and ONE_SEED in told
    (both,) = verdict(replace(alone, average=replace(over, n_a=1, p=0.2)))
    assert both.startswith("With one seed of rankcse and one of simcse, ") and "p = 0.200;" in both


def test_a_matrix_by_hand(lines, written) -> None:
    names = ("rankcse", "simcse", "hicl")
    effects = ((0.0, 0.02, 0.01), (-0.02, 0.0, -0.01), (-0.01, 0.01, 0.0))
    p = ((None, 0.004, 0.04), (0.004, None, 0.5), (0.04, 0.5, None))
    limits = Limits(left_out=("pcl",))
    matrix = Matrix(names, effects, p, p, STS_TASKS, limits, average="avg_sts")
    told = lines(matrix)
    assert told[:2] == ["Row minus column, avg_sts, x 100", "# row 1 2 3"]
    assert told[3:] == [
        *("1 rankcse +2.00 ** +1.00 *", "2 simcse -2.00 ** -1.00", "3 hicl -1.00 * +1.00"),
        "** p < 0.01, after Holm's correction over all pairs.",
        "* p < 0.05, after Holm's correction over all pairs.",
        "Left out, scored on other tasks or data: pcl; --identity selects the rows of one "
        "evaluation.",
    ]
    told = lines(replace(matrix, limits=Limits(single=("hicl",))))
    rows = ["1 rankcse +2.00 ** +1.00 * ‡", "2 simcse -2.00 ** -1.00 ‡", "3 hicl -1.00 * ‡ +1.00 ‡"]
    assert told[3:6] == rows
    assert told.count(ONE_SEED) == 1
    some = {("stsb", "sickr"): "mean over stsb, sickr", ("mr",): "mr"}
    for tasks, over in some.items():
        assert (
            lines(replace(matrix, average=None, tasks=tasks))[0]
            == f"Row minus column, {over}, x 100"
        )
    head, first, *others = written(matrix, "csv").splitlines()
    assert (head, first) == ("a,b,effect,p,p_holm", "rankcse,simcse,0.02,0.004,0.004")
    assert len(others) == 5 and others[-1] == "hicl,simcse,0.01,0.5,0.5"


def test_a_comparison_as_csv_has_a_line_for_each_task_and_the_average(written, comparison) -> None:
    first, _, average = csv.DictReader(io.StringIO(written(comparison, "csv")))
    expected = {"a": "rankcse", "b": "simcse", "n_a": "3", "n_b": "2", "task": "sts12",
                "effect": "0.02", "p": "0.02", "p_holm": "0.04", "examples": "3108"}  # fmt: skip
    assert expected.items() <= first.items()
    assert (average["task"], average["effect"], average["examples"]) == ("avg_sts", "0.0125", "")


def line(backbone: str, label: str, value: float, ours: Estimate | None = None) -> PaperLine:
    settings = dict([label.split("=")]) if label else {}
    printed = published(
        {"avg_sts": value, "train_minutes": 87.5}, std={"avg_sts": 0.0013},
        backbone=backbone, system="rankcse", settings=settings,
    )  # fmt: skip
    return PaperLine(printed, {"avg_sts": ours}, "c" * 64) if ours else PaperLine(printed)


def test_a_released_encoder_in_a_papers_table_is_told_from_ours(lines) -> None:
    scored = replace(line("bert-base", "", 0.78, estimate(0.79)), released="diffcse-bert-base")
    [_, _, _, _, theirs, *_] = lines(PaperTable("rankcse", "table2", ("avg_sts",), (scored,)))
    assert theirs == "bert-base released, not ours (diffcse-bert-base, n = 1, cccccccc) 79.00"


def test_our_row_in_a_papers_table_has_the_marks_of_the_board(lines, written) -> None:
    cautions = ("choice counts", "tests opened", "saw test sentences")
    marked = replace(line("bert-base", "", 0.78, estimate(0.79)), cautions=cautions)
    table = PaperTable("ours", "1", ("avg_sts",), (marked,), other_dev_sets=("my-dev",))
    told = lines(table)
    assert told[4] == "bert-base ours (n = 1, cccccccc) △ * ° 79.00"
    assert {one[0] for one in told if one[:2] in ("△ ", "* ", "° ")} == {"△", "*", "°"}
    assert any("my-dev. A line takes the dev set" in one for one in told)
    assert r"\circ" in written(table, "latex")
    row, *_ = csv.DictReader(io.StringIO(written(table, "csv")))
    assert row["cautions"] == "choice counts, tests opened, saw test sentences"


def test_a_papers_table_by_hand(lines, written) -> None:
    stands = line("bert-base", "rank_loss=listnet", 0.8, estimate(0.8, 0.81))
    printed = (stands, line("bert-base", "", 0.79), line("roberta-base", "", 0.9))
    table = PaperTable("rankcse", "table2", ("avg_sts", "train_minutes"), printed, left_out=1)
    told = lines(table)
    assert told[0] == "rankcse table2, x 100: the paper's numbers; 1 of 3 rows are yours"
    assert told[3:] == [
        "bert-base rankcse (rank_loss=listnet) 80.00 ±0.13 87.5",
        "bert-base ours (n = 2, cccccccc) 80.50 ±0.71",
        "bert-base difference +0.50 ≈",
        "bert-base rankcse 79.00 ±0.13 87.5",
        "---",
        "roberta-base rankcse 90.00 ±0.13 87.5",
        "≈ within noise: the 95 % interval of the difference over seeds includes 0.",
        "Where the paper prints no standard deviation, the interval lacks the paper's own noise.",
        "train_minutes: the paper's are of unknown hardware.",
        "Scores of 1 of our rows are left out: built-in and imported data cannot be compared with "
        "a paper.",
    ]
    text = written(table, "latex")
    assert r"& difference & +0.50$^{\approx}$ &" in text
    assert r"\par\smallskip $\approx$ within noise" in text
    ours = {"train_minutes": estimate(9, 11)}
    minutes = PaperLine(published({"train_minutes": 20.0}), ours, "d" * 64)
    costs = lines(PaperTable("rankcse", "table11", ("train_minutes",), (minutes,)))
    assert costs[0] == "rankcse table11: the paper's numbers; 1 of 1 rows are yours"
    assert costs[3:6] == [
        "bert-base simcse 20",
        "bert-base ours (n = 2, dddddddd) 10.0 ±1.4",
        "bert-base difference -10.0 ≈",
    ]
    text = written(table, "markdown")  # best and second of a backbone, printed and ours together
    assert "**80.50** ±0.71" in text and "<u>80.00</u> ±0.13" in text
    assert "**79.00**" not in text and "**87.5**" not in text and "| 90.00 ±0.13 | 87.5 |" in text


def test_each_gap_is_said_with_its_mark(lines, written) -> None:
    minutes = published({"avg_sts": 0.8, "train_minutes": 87.5}, backbone="a")
    above, one_seed = estimate(0.82, 0.8202), estimate(0.8)
    found = (
        PaperLine(minutes, {"avg_sts": above}, "c" * 64),
        PaperLine(minutes, {"avg_sts": one_seed}, "d" * 64),
        PaperLine(minutes, {"train_minutes": estimate(60, 61)}, "e" * 64),
        PaperLine(replace(minutes, std={"avg_sts": 0.0})),
    )
    table = PaperTable("rankcse", "table2", ("avg_sts", "train_minutes"), found)
    told = lines(table)
    differences = [one.split("difference ")[1] for one in told if "difference" in one][:3]
    assert differences == ["+2.01 ↑", "0.00 ?", "-27.0 ↓"]
    assert "a ours (n = 2, eeeeeeee) 60.5 ±0.7" in told
    assert [one[0] for one in told[-5:-2]] == ["↑", "↓", "?"]
    rows = list(csv.DictReader(io.StringIO(written(table, "csv"))))
    verdicts = ["above", "", "noise not known", "", "", "below", "", ""]
    assert [row["verdict"] for row in rows] == verdicts
    # 0.8201 - 0.8 -+ 12.7062 x 0.0001
    ends = float(rows[0]["difference_low"]), float(rows[0]["difference_high"])
    assert ends == pytest.approx((0.018829, 0.021371), abs=1e-6)
    assert (rows[2]["difference_low"], rows[2]["n"]) == ("", "1")
    first, second, *_ = json.loads(written(table, "json"))["lines"]
    assert first["differences"]["avg_sts"]["interval"] == pytest.approx(list(ends))
    unknown = {"value": 0.0, "interval": None, "verdict": "noise not known"}
    assert second["differences"] == {"avg_sts": unknown}


@pytest.fixture
def ours() -> LeaderboardRow:
    """One with everything."""
    costs = {"epoch_minutes": estimate(20.5, 21.5), "sentences_per_second": estimate(800, 900)}
    score = estimate(0.75, 0.77, interval=Interval(0.7, 0.8, "seeds"), source="hub")
    return row(
        {"avg_sts": score, "mr": estimate(0.5)},
        test_opened=datetime(2030, 1, 1, 12, tzinfo=UTC),
        rank=RankInterval(1, 2, 3),
        gap=Gap(0.8, "rankcse table2", -0.04, True),
        machines=["here (A100)", "there"],
        costs=costs | {"host_memory_gib": estimate(2.5, 4.0)},
        epochs=0.5,
    )


@pytest.fixture
def paper() -> PublishedRow:
    """A published row with a deviation, on a task that ours lacks too."""
    return published(
        {"sts12": 0.7, "avg_sts": 0.8, "sts13_kcc": 0.4},
        settings={"rank_loss": "listnet", "seeds": "5"},
        std={"avg_sts": 0.001},
        sources=("rankcse table2", "hicl table1"),
        year=2025,
        apart=("llm",),
        reported_by="a survey",
    )


def test_json_of_a_board(written, ours, paper) -> None:
    mine, theirs = json.loads(written(Board([ours], [paper]), "json"))
    assert mine["test_interval"] == {"avg_sts": [0.7, 0.8, "seeds"], "mr": None}
    assert mine["test_seeds"] == {"avg_sts": 2, "mr": 1} and mine["test_best"]["avg_sts"] == 0.77
    assert (mine["gap"]["difference"], mine["gap"]["inside"]) == (-0.04, True)
    assert mine["host_memory_gib"] == 4.0  # the most of any seed
    assert theirs == {
        "published": True, "method": "simcse", "backbone": "bert-base", "system": "simcse",
        "sources": list(paper.sources), "settings": dict(paper.settings), "split": "test",
        "scores": dict(paper.scores), "scores_std": {"avg_sts": 0.001}, "unstated": [],
        "year": 2025, "venue": "", "paper_id": "", "trained_on": "", "checkpoints": "",
        "apart": ["llm"], "reported_by": "a survey", "read_in": "",
    }  # fmt: skip


def test_csv_of_a_board_has_each_row_and_every_published_one(written, ours, paper) -> None:
    on_dev = replace(paper, split="dev", system="other")
    mine, theirs, other = csv.DictReader(
        io.StringIO(written(Board([ours], [paper, on_dev]), "csv"))
    )
    scored = ("published", "split", "n", "avg_sts", "avg_sts_n", "avg_sts_std", "mr", "sts12")
    assert [mine[name] for name in scored] == [
        *("false", "test", "2", "0.76", "2", str(ours.scores["avg_sts"].std), "0.5", "")
    ]
    assert [theirs[name] for name in scored] == [
        *("true", "test", "5", "0.8", "", "0.001", "", "0.7")
    ]
    assert (mine["gap"], theirs["gap"], mine["system"]) == ("-0.04", "", "")
    assert (theirs["settings"], other["split"]) == ("rank_loss=listnet, seeds=5", "dev")


def names(board: Board) -> list[str]:
    return [column.name for column in data_columns(board)]


def test_no_text_in_csv_is_a_formula_of_a_spreadsheet_and_numbers_stay() -> None:
    formulas = ["=1+1", "+a", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "-", "--fast"]
    others = [-17.48, 5e-5, float("-inf"), [-0.5, 0.25], "-0.5", "+1.25", "a=1", "", "'=1", "x -1"]
    column = Column[Any]("=value", lambda value: value)
    head, *cells = [cell for (cell,) in csv.reader(io.StringIO(to_csv([column], formulas)))]
    assert (head, cells) == ("'=value", [f"'{formula}" for formula in formulas])
    _, *cells = [
        line[0] if line else "" for line in csv.reader(to_csv([column], others).split("\n"))
    ]
    assert cells[:-1] == [
        "-17.48", "5e-05", "-inf", "-0.5 0.25", "-0.5", "+1.25", "a=1", "", "'=1", "x -1",
    ]  # fmt: skip


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
