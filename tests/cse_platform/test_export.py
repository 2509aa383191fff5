"""Test scores in the table, with their mark and notes, and in CSV and JSON."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cse_platform.leaderboard.export import CSV_COLUMNS, write
from cse_platform.leaderboard.queries import Configuration, DevSet, LeaderboardRow

ROW = LeaderboardRow(
    method="whitenedcse",
    backbone="roberta-large",
    sweep="whitenedcse-roberta-large",
    configuration=Configuration("a" * 64, {"groups": 384}, ["groups"]),
    seeds=[0, 1],
    n=2,
    dev=DevSet("stsb", "stsb", "dev-1", "senteval"),
    dev_mean=0.8425,
    dev_std=0.0125,
    dev_untrained=0.5,
    trials=40,
    test={"avg_sts": 0.785, "avg_transfer": 0.86125, "sts12": 0.7237},
    evaluation={"avg_sts": "e1", "avg_transfer": "e2", "sts12": "e1"},
    test_seeds={"avg_sts": 2, "avg_transfer": 1, "sts12": 2},
    test_opened=datetime(2030, 1, 1, 12, tzinfo=UTC),
)
SMALL = replace(
    ROW,
    method="simcse",
    backbone="bert-base",
    configuration=Configuration("b" * 64, {}, []),
    test={"avg_sts": 0.755},
    evaluation={"avg_sts": "e1"},
    test_opened=None,
)


NOTE = (
    "* First tried after tests were opened for its method; "
    "tried before and promoted after has no mark."
)


def table(capsys: pytest.CaptureFixture[str], *rows: LeaderboardRow) -> list[str]:
    write(rows, form="table")
    ranking, _, _ = capsys.readouterr().out.partition("\n\n")
    assert max(map(len, ranking.splitlines())) <= 100
    return [" ".join(line.split()) for line in ranking.splitlines()]


def of(row: LeaderboardRow, **test: float) -> LeaderboardRow:
    return replace(row, test=test, evaluation=dict.fromkeys(test, "e1"))


def test_averages_are_columns_and_hashes_marked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = replace(SMALL, test_opened=ROW.test_opened)
    head, under, _, line, *notes = table(capsys, small)
    assert (head, under) == ("avg", "method backbone dev set dev sts seeds trials configuration")
    assert line == "simcse bert-base stsb (senteval) 84.25 ± 1.25 75.50 2 40 bbbbbbbb *"
    assert notes == [NOTE]


def test_what_was_not_scored_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    both = replace(ROW, method="hicl", backbone="bert-base", test_opened=None)
    head, under, _, first, second = table(capsys, both, SMALL)
    assert head == "avg avg"
    assert under == "method backbone dev set dev sts transfer seeds trials configuration"
    assert first == "hicl bert-base stsb (senteval) 84.25 ± 1.25 78.50 86.12 2 40 aaaaaaaa"
    assert second == "simcse bert-base stsb (senteval) 84.25 ± 1.25 75.50 2 40 bbbbbbbb"


def test_a_row_without_test_scores_is_marked_too(capsys: pytest.CaptureFixture[str]) -> None:
    head, _, line, note = table(capsys, of(replace(SMALL, test_opened=ROW.test_opened)))
    assert head == "method backbone dev set dev untrained seeds trials configuration"
    assert line == "simcse bert-base stsb (senteval) 84.25 ± 1.25 50.00 2 40 bbbbbbbb *"
    assert note == NOTE
    *_, scored, unscored, _ = table(capsys, SMALL, of(replace(SMALL, test_opened=ROW.test_opened)))
    assert (scored.split()[-1], unscored.split()[-2:]) == ("bbbbbbbb", ["bbbbbbbb", "*"])


def test_single_tasks_are_columns_where_their_average_is_lacking(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head, _, line = table(capsys, of(SMALL, stsb=0.5))
    assert head == "method backbone dev set dev stsb seeds trials configuration"
    assert line == "simcse bert-base stsb (senteval) 84.25 ± 1.25 50.00 2 40 bbbbbbbb"
    _, head, _, first, second, *_ = table(
        capsys, of(SMALL, avg_sts=0.75, stsb=0.5, sts12=0.25), of(SMALL, sts12=0.375, imdb=0.625)
    )
    assert head == "method backbone dev set dev sts sts12 imdb seeds trials configuration"
    assert "84.25 ± 1.25 75.00 25.00 2 40" in first  # and its STS-B is in its average
    assert "84.25 ± 1.25 37.50 62.50 2 40" in second


def test_the_average_of_another_family_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    _, head, *_ = table(capsys, of(SMALL, avg_sts=0.75, sts12=0.5, mr=0.75, cr=0.5))
    assert head == "method backbone dev set dev sts mr cr seeds trials configuration"


def test_more_single_tasks_than_there_is_room_for_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head, *_, note = table(capsys, of(SMALL, mrpc=0.5, stsb=0.5, yelp=0.5, sts13=0.5))
    assert head == "method backbone dev set dev sts13 stsb seeds trials configuration"
    assert note == "Not shown: mrpc, yelp (--json has them)."


def test_rows_that_do_not_compare_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    other = replace(SMALL, evaluation={"avg_sts": "e9"})
    *_, note = table(capsys, SMALL, other)
    assert note == (
        "Rows of avg_sts are of 2 evaluation identities: compare those of one (--json has them)."
    )


def test_the_widest_row_of_ours_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    *_, first, second, _ = table(capsys, ROW)
    assert first == "whitenedcse roberta-large stsb 84.25 ± 1.25 78.50 86.12 2 40 aaaaaaaa *"
    assert second == "(senteval)"


def test_beside_four_scores_names_are_folded_and_numbers_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    *lines, note = table(capsys, ROW, of(SMALL, stsb=0.5, mr=0.625))
    assert note == NOTE
    assert "84.25 ± 1.25 78.50 86.12 2 40 aaaaaaaa *" in lines[3]
    assert any("84.25 ± 1.25 50.00 62.50 2 40 bbbbbbbb" in line for line in lines)
    assert not any("…" in line for line in lines)


def test_a_longer_name_is_folded_and_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    name = "/models/of/the/laboratory/roberta-large-adapted"
    *lines, _ = table(capsys, replace(ROW, backbone=name))
    assert "".join(word for line in lines for word in line.split() if word in name) == name


def test_programs_get_fractions(capsys: pytest.CaptureFixture[str]) -> None:
    write([ROW, SMALL], form="json")
    marked, plain = json.loads(capsys.readouterr().out)
    assert marked["test"] == ROW.test
    assert marked["evaluation"] == ROW.evaluation
    assert marked["test_seeds"] == ROW.test_seeds
    assert marked["test_opened"] == "2030-01-01T12:00:00+00:00"
    assert plain["test_opened"] is None

    write([ROW, SMALL], form="csv")
    marked, plain = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert tuple(marked) == CSV_COLUMNS
    assert json.loads(marked["test"]) == ROW.test
    assert json.loads(marked["evaluation"]) == ROW.evaluation
    assert json.loads(marked["test_seeds"]) == ROW.test_seeds
    assert marked["test_opened"] == "2030-01-01T12:00:00+00:00"
    assert (plain["test"], plain["test_opened"]) == ('{"avg_sts": 0.755}', "")
