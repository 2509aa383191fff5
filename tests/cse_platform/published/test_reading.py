"""A lab's own file of published numbers: what is read from it, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cse_platform.errors import PublishedError
from cse_platform.leaderboard.published.rows import published_rows, read_rows

Write = Callable[..., Path]


def test_a_labs_rows_follow_the_packages(lab_file: Write) -> None:
    settings = "groups=32;tau2=0.05;head=true;base=simcse"
    file = lab_file(
        f"ours 2030,table 1,bert-base,rankcse,{settings};seeds=3,stsb,test,spearman,81.5,0.25,",
        f"ours 2030,table 1,bert-base,rankcse,{settings};seeds=3,mr,test,accuracy,80,,",
        'ours 2030,table 1,bert-base,fancy,x=1,stsb,dev,spearman,-3.5,,"{""method"": ""rankcse""}"',
        "ours 2030,table 1,bert-base,glove,,stsb,test,kendall,50,,-",
    )
    ranked, fancy, glove = published_rows(files=[file])[-3:]
    assert ranked.scores == {"stsb": 0.815, "mr": 0.8}
    assert (ranked.std, ranked.seeds) == ({"stsb": 0.0025}, 3)
    typed = {"groups": 32, "tau2": 0.05, "head": True, "base": "simcse"}
    assert ranked.configuration == typed
    assert ranked.sources == ("ours 2030 table 1",)
    assert (fancy.system, fancy.method, fancy.configuration) == ("fancy", "rankcse", {})
    assert fancy.scores == {"stsb": -0.035}
    assert (glove.scores, glove.configuration) == ({"stsb_kcc": 0.5}, None)


def test_columns_may_be_left_out_and_stand_in_any_order(lab_file: Write) -> None:
    """And a spreadsheet's mark at the start is no part of the head."""
    file = lab_file(
        "80.36 , spearman,test,avg_sts,rankcse,bert-base,t,p",
        head="value,metric,split,task,method,backbone,table,paper",
    )
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    (row,) = read_rows(file)
    assert row.scores == {"avg_sts": 0.8036}
    assert (row.settings, row.configuration, row.std) == ({}, {}, {})


def test_all_problems_at_once_with_their_places(lab_file: Write) -> None:
    file = lab_file(
        "p,t,b,m,,stsb,test,spearman,eighty,,",
        "p,t,b,m,,sts17,tset,spearman,80,,",
        "p,t,b,m,,stsb,test,accuracy,180,,",
        "p,t,,m,seeds,stsb,test,spearman,80,-1,",
        "p,t,b,m,,stsb,test,spearman,80,,{oops",
        "p,t,b,m,,mr,test,accuracy,80,,",
        "p,t,b,m,,mr,test,accuracy,81,,",
    )
    with pytest.raises(PublishedError) as refused:
        read_rows(file)
    head, *problems = str(refused.value).splitlines()
    assert head == f"{file} is not a file of published numbers:"
    assert [problem.split(":")[0].strip().removeprefix("line ") for problem in problems] == [
        *("2, value", "3, split", "4, metric", "4, value", "5, backbone", "5, settings", "5, std"),
        *("6, configuration", "8, task"),
    ]


PROBLEMS = [
    ("p,t,b,m,,stsb,test,spearman,nan,,", "line 2, value: expected a number as .* got 'nan'"),
    ("p,t,b,m,,sts-b,test,spearman,80,,", "task: no task 'sts-b'; did you mean 'stsb'"),
    ("p,t,b,m,,mr,test,spearman,80,,", "metric: expected accuracy for mr, got 'spearman'"),
    ("p,t,b,m,,mr,test,accuracy,808,,", "value: expected a percentage .* got 808"),
    ("p,t,b,m,a=1;a=2,mr,test,accuracy,80,,", "settings: expected NAME=VALUE.* got 'a=1;a=2'"),
    ("p,t,b,m,seeds=few,mr,test,accuracy,80,,", "settings: expected a whole number of seeds"),
    ('p,t,b,m,,mr,test,accuracy,80,,"{""rerun"": 1}"', "expected true or false for rerun, got 1"),
    ("p,t,b,m,,mr,test,accuracy,80,,[]", "configuration: expected a JSON object"),
    ('p,t,b,m,,mr,test,accuracy,80,,"{""a"": {""no"": 1}}"', 'or {"not": VALUE} for a'),
    ("p,t,b,m,,mr,test,accuracy,0.81,,", "line 2, value: expected percent.* got 0.81"),
    ("p,t,b,m,,mr,test,accuracy,80", "line 2: expected 11 cells, as the head has, got 9"),
    ('p,t,b,m,"a"b,mr,test,accuracy,80,,', "line 2: "),
]


def test_a_problem_says_what_was_expected(lab_file: Write) -> None:
    for line, message in PROBLEMS:
        with pytest.raises(PublishedError, match=message):
            read_rows(lab_file(line))


def test_a_head_must_have_the_columns_and_no_others(lab_file: Write) -> None:
    file = lab_file(head="paper,table,backbone,methd,task,split,metric,value,value")
    with pytest.raises(PublishedError) as refused:
        read_rows(file)
    assert str(refused.value).splitlines()[1:] == [
        "  line 1: the column 'method' is missing",
        "  line 1: the column 'value' is there more than once",
        "  line 1: no such column: 'methd'; did you mean 'method'?",
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PublishedError, match=r"none\.csv cannot be read: No such file"):
        published_rows(files=[tmp_path / "none.csv"])
    with pytest.raises(PublishedError, match="cannot be read: Is a directory"):
        published_rows(files=[str(tmp_path)])
    (tmp_path / "latin.csv").write_bytes(b"paper,\xe9")
    with pytest.raises(PublishedError, match="byte 6 is not UTF-8"):
        read_rows(tmp_path / "latin.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(PublishedError, match="line 1: the column 'paper' is missing"):
        read_rows(tmp_path / "empty.csv")
