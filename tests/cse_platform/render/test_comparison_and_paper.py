"""Comparisons and papers' tables for people."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard.published.papers import PaperLine, PaperTable
from cse_platform.leaderboard.records import Estimate
from cse_platform.leaderboard.render.comparison import verdict
from cse_platform.leaderboard.statistics.results import Interval, Matrix
from cse_platform.render.formats import probability

ONE_SEED = "‡ Over the pairs of a single seed: how other seeds would do is not known."


def test_what_follows_in_words(comparison) -> None:
    average = comparison.average
    assert average is not None

    def said(**changes: object) -> str:
        (sentence,) = verdict(replace(comparison, average=replace(average, **changes)))
        return sentence

    below = {"effect": -0.02, "interval": Interval(-0.03, -0.01, "seeds"), "p": 0.0001}
    assert re.match(
        r"rankcse is below simcse by 2.00 .* \[-3.00, -1.00\], p < 0.001\.$", said(**below)
    )
    assert re.match("rankcse and simcse cannot be distinguished: .* p = 0.050", said(p=0.05))
    unsure = said(p=None, interval=None)
    assert re.match("rankcse and simcse differ by 1.25 ", unsure) and "p =" not in unsure


def test_what_one_seed_leaves_open_is_said(lines, comparison) -> None:
    average = comparison.average
    assert average is not None
    over = replace(average, interval=Interval(0.01, 0.03, "pairs"))
    alone = replace(comparison, n_b=1, average=over)
    [said_alone] = verdict(alone)
    assert said_alone.startswith("On one seed of simcse, rankcse is above simcse by 1.25 ")
    told = lines(alone)
    assert "avg_sts 76.00 74.75 +1.25 [1.00, 3.00] ‡ 0.004" in told and ONE_SEED in told
    (both,) = verdict(replace(alone, n_a=1, average=replace(over, p=0.2)))
    assert both.startswith("On one seed of rankcse and one of simcse, ") and "p = 0.200;" in both


def test_without_an_average_each_task_is_said_after_holm(comparison) -> None:
    first, second = verdict(replace(comparison, average=None))
    assert first.startswith("rankcse is above simcse by 2.00 on sts12, ")
    assert second.startswith("rankcse and simcse cannot be distinguished") and "sts13" in second


def test_probabilities() -> None:
    shown = [probability(p) for p in (None, 0.0, 0.00099, 0.001, 0.0494, 1.0)]
    assert shown == ["", "<0.001", "<0.001", "0.001", "0.049", "1.000"]


def test_a_matrix_by_hand(lines) -> None:
    names = ("rankcse", "simcse", "hicl")
    effects = ((0.0, 0.02, 0.01), (-0.02, 0.0, -0.01), (-0.01, 0.01, 0.0))
    p = ((None, 0.004, 0.04), (0.004, None, 0.5), (0.04, 0.5, None))
    matrix = Matrix(names, effects, p, p, ("a note",), STS_TASKS, ("rankcse: a", "simcse: b"))
    told = lines(matrix)
    assert told[:2] == ["Row minus column, avg_sts, x 100", "# row 1 2 3"]
    assert told[3:] == [
        *("1 rankcse +2.00 ** +1.00 *", "2 simcse -2.00 ** -1.00", "3 hicl -1.00 * +1.00"),
        "** p < 0.01, after Holm's correction over all pairs.",
        "* p < 0.05, after Holm's correction over all pairs.",
        *("rankcse: a", "simcse: b", "a note"),
    ]
    told = lines(replace(matrix, single=("hicl",)))
    rows = ["1 rankcse +2.00 ** +1.00 * ‡", "2 simcse -2.00 ** -1.00 ‡", "3 hicl -1.00 * ‡ +1.00 ‡"]
    assert told[3:6] == rows
    assert told.count(ONE_SEED) == 1
    some = {("stsb", "sickr"): "mean over stsb, sickr", ("mr",): "mr"}
    for tasks, over in some.items():
        assert lines(replace(matrix, tasks=tasks))[0] == f"Row minus column, {over}, x 100"


def line(backbone: str, label: str, value: float, ours: Estimate | None = None) -> PaperLine:
    printed = {"avg_sts": value, "train_minutes": 87.5}
    stands = ({"avg_sts": ours}, "c" * 64) if ours else ({}, None)
    return PaperLine(backbone, "rankcse", label, printed, {"avg_sts": 0.0013}, *stands)


def test_a_released_encoder_in_a_papers_table_is_told_from_ours(lines, estimate) -> None:
    scored = replace(line("bert-base", "", 0.78, estimate(0.79)), released="diffcse-bert-base")
    [_, _, _, _, theirs, *_] = lines(PaperTable("rankcse", "table2", ("avg_sts",), (scored,)))
    assert theirs == "bert-base released, not ours (diffcse-bert-base, n = 1, cccccccc) 79.00"


def test_a_papers_table_by_hand(lines, written, estimate) -> None:
    stands = line("bert-base", "rank_loss=listnet", 0.8, estimate(0.8, 0.81))
    printed = (stands, line("bert-base", "", 0.79), line("roberta-base", "", 0.9))
    notes = ("train_minutes is in minutes.",)
    table = PaperTable("rankcse", "table2", ("avg_sts", "train_minutes"), printed, notes)
    told = lines(table)
    assert told[0] == "rankcse table2, x 100"
    assert told[3:] == [
        "bert-base rankcse (rank_loss=listnet) 80.00 ±0.13 87.5",
        "bert-base ours (n = 2, cccccccc) 80.50 ±0.71",
        "bert-base difference +0.50 ≈",
        "bert-base rankcse 79.00 ±0.13 87.5",
        "---",
        "roberta-base rankcse 90.00 ±0.13 87.5",
        "≈ within noise: the 95 % interval of the difference over seeds holds 0.",
        "Where the paper prints no standard deviation, its own noise is not known and not in the "
        "interval.",
        "train_minutes is in minutes.",
    ]
    text = written(table, "latex")
    assert r"& difference & +0.50$^{\approx}$ &" in text
    assert r"\par\smallskip $\approx$ within noise" in text
    ours = {"train_minutes": estimate(9, 11)}
    minutes = PaperLine("bert-base", "simcse", "", {"train_minutes": 20.0}, {}, ours, "d" * 64)
    costs = lines(PaperTable("rankcse", "table11", ("train_minutes",), (minutes,)))
    assert costs[0] == "rankcse table11"
    assert costs[3:6] == [
        "bert-base simcse 20",
        "bert-base ours (n = 2, dddddddd) 10.0 ±1.4",
        "bert-base difference -10.0 ≈",
    ]
    text = written(table, "markdown")  # best and second of a backbone, printed and ours together
    assert "**80.50** ±0.71" in text and "<u>80.00</u> ±0.13" in text
    assert "**79.00**" not in text and "**87.5**" not in text and "| 90.00 ±0.13 | 87.5 |" in text


def test_each_gap_is_said_with_its_mark(lines, written, estimate) -> None:
    minutes = {"avg_sts": 0.8, "train_minutes": 87.5}
    above, one_seed = estimate(0.82, 0.8202), estimate(0.8)
    found = (
        PaperLine("a", "x", "", minutes, {}, {"avg_sts": above}, "c" * 64),
        PaperLine("a", "y", "", minutes, {}, {"avg_sts": one_seed}, "d" * 64),
        PaperLine("a", "z", "", minutes, {}, {"train_minutes": estimate(60, 61)}, "e" * 64),
        PaperLine("a", "w", "", minutes, {"avg_sts": 0.0}, {}),
    )
    table = PaperTable("rankcse", "table2", ("avg_sts", "train_minutes"), found)
    told = lines(table)
    differences = [one.split("difference ")[1] for one in told if "difference" in one][:3]
    assert differences == ["+2.01 ↑", "+0.00 ?", "-27.0 ↓"]
    assert "a ours (n = 2, eeeeeeee) 60.5 ±0.7" in told
    assert [one[0] for one in told[-4:-1]] == ["↑", "↓", "?"]
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
