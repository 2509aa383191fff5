import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cse_methods.tasks import STS_TASKS
from cse_platform.errors import PublishedError
from cse_platform.leaderboard.published.rows import (
    PublishedRow,
    merge_repeated_rows,
    published_rows,
    read_rows,
)

FIGURES = Path(__file__).parents[3] / "platform/cse_platform/leaderboard/published"
WHOLE = ("hicl", "table16")
"""Of this table the shared numbers are averages alone, without deviations."""


def one(paper: str, table: str, backbone: str, system: str, **settings: str) -> PublishedRow:
    """The row of that place; fails where it is none or several."""
    (row,) = (
        row
        for row in published_rows(backbone=backbone)
        if (row.paper, row.table, row.system) == (paper, table, system)
        and settings.items() <= row.settings.items()
    )
    return row


def test_figures_and_what_else_a_row_says() -> None:
    listnet = one("rankcse", "table2", "bert-base", "rankcse", rank_loss="listnet")
    listmle = one("rankcse", "table2", "bert-base", "rankcse", rank_loss="listmle")
    assert (listnet.scores["avg_sts"], listmle.scores["avg_sts"]) == (0.8005, 0.8036)
    assert one("hicl", "table1", "roberta-large", "hicl", base="sncse").scores["sts12"] == 0.7374
    scores = one("compcse", "table2", "bert-base", "compcse", subsampling="none").scores
    assert scores == {"stsb": 0.8397}
    row = one("rankcse", "table6", "bert-base", "rankcse", rank_loss="listmle")
    assert row.std == {"avg_sts": 0.0004, "avg_transfer": 0.0006}
    assert (row.seeds, row.split, row.is_own) == (5, "test", True)
    assert row.label == "rank_loss=listmle, seeds=5"
    assert row.sources == ("rankcse table6",)
    row = one("rankcse", "table13", "bert-base", "rankcse")  # ranking has columns of its own
    assert (row.scores["avg_sts_kcc"], row.scores["avg_sts_ndcg"]) == (0.5198, 0.9607)
    assert len(row.scores) == 16
    row = one("hicl", "table12", "roberta-large", "simcse", max_length_512="hicl")
    assert (row.scores, row.split) == ({"train_minutes": 152.0}, "train")
    minutes = {"train_minutes": 220.0, "epoch_minutes": 55.0}
    assert one("rankcse", "table11", "bert-large", "rankcse").scores == minutes
    assert one("rankcse", "table11", "bert-base", "simcse").corpus == "wiki1m"  # costs are of it
    assert one("compcse", "table1", "bert-base", "simcse").corpus is None
    row = one("hicl", "table9", "bert-large", "simcse", variant="hicl")
    assert (row.method, row.is_own) == ("hicl", True)
    assert row in published_rows(method="hicl")
    assert row not in published_rows(method="simcse")
    assert one("rankcse", "table3", "bert-base", "last-avg").method == "untrained"


def test_what_a_paper_ran_anew_is_told_from_what_it_cites() -> None:
    assert one("hicl", "table10", "bert-base", "simcse", run="reproduced", batch_size="64").rerun
    cited = one("hicl", "table10", "bert-base", "simcse", run="original")
    assert (cited.rerun, cited.configuration) == (False, {"batch_size": 64, "precision": "fp16"})
    rerun = [row for row in published_rows() if row.rerun]
    assert not any(row.is_own or "rerun" in (row.configuration or {}) for row in rerun)
    assert {(row.paper, row.method) for row in rerun} == {
        *(("hicl", method) for method in ("simcse", "esimcse", "sncse")),
        ("rankcse", "simcse"),
    }
    assert all(
        row.rerun for row in published_rows() if row.settings.get("setup") and not row.is_own
    )


COSTS_IN_TEXT = [
    ("compcse", "section6", "bert-base", "train_minutes", "15"),
    *[("hicl", "section5.4", "bert-base", "gpu_memory_gib", "48")] * 2,
    *(
        ("rankcse", "table11", f"bert-{size}", "epoch_minutes", minutes)
        for size, minutes in (("base", "20"), ("large", "45"), ("base", "30"), ("large", "55"))
    ),
]
"""What was read in the papers beside the shared figures."""


def test_every_figure_is_the_shared_one(shared: Path) -> None:
    for name, numbers, added in (("scores", 1512, []), ("ablations", 219, COSTS_IN_TEXT)):
        with (shared / "published" / f"{name}.csv").open(newline="") as stream:
            known = [_figure(row) for row in csv.DictReader(stream)]
        with (FIGURES / f"{name}.csv").open(newline="") as stream:
            ours = [_figure(row) for row in csv.DictReader(stream)]
        assert len(known) == numbers
        averages = [(*one[:-1], "") for one in ours if one[:2] == WHOLE and one[4] == "avg_sts"]
        assert averages == [one for one in known if one[:2] == WHOLE]
        known, ours = ([one for one in listed if one[:2] != WHOLE] for listed in (known, ours))
        assert [figure for figure in ours if figure in known] == known
        beside = [figure for figure in ours if figure not in known]
        assert [(*figure[:3], figure[4], figure[7]) for figure in beside] == added


def _figure(row: dict[str, str]) -> tuple[str, ...]:
    """A line, with the settings of an ablation put together."""
    varied = f"{row.get('varied')}={row['setting']}" if row.get("setting") else ""
    settings = row["settings"] if "settings" in row else f"{row['fixed']};{varied}".strip(";")
    names = ("paper", "table", "backbone", "method", "task", "split", "metric", "value")
    return (*(row[name] for name in names), settings, row.get("std", ""))


def test_every_recent_figure_is_the_shared_one(shared: Path) -> None:
    listed = []
    for file in (shared / "published" / "recent.csv", FIGURES / "recent.csv"):
        with file.open(newline="") as stream:
            listed.append(list(csv.DictReader(stream)))
    assert [len(lines) for lines in listed] == [952, 952]
    same = ("table", "backbone", "method", "settings", "task", "metric", "value", "std", "year")
    for known, ours in zip(*listed, strict=True):
        assert [ours[name] for name in same] == [known[name] for name in same]
        of_others = known["source_kind"].removeprefix("reported by ")
        assert ours["reported_by"] == ("" if of_others == "primary" else of_others)
        assert ("llm" in ours["apart"]) is ("LLM" in known["supervision"])
        assert ("supervised" in ours["apart"]) is known["supervision"].startswith("supervised")
        assert ("transductive" in ours["apart"]) is ("unlabelled-sickr" in known["settings"])


@pytest.fixture
def recent() -> list[PublishedRow]:
    return [row for row in published_rows() if row.year is not None]


def test_a_recent_row_says_where_it_is_from_and_what_sets_it_apart(recent) -> None:
    row = one("tncse", "readme", "bert-base", "tncse", encoders="3")
    assert (row.scores["avg_sts"], row.scores["sickr"]) == (0.8056, 0.7301)
    assert (row.year, row.venue, row.paper_id) == (2025, "AAAI 2025", "arXiv:2503.12739")
    assert row.trained_on.startswith("wiki1m + unlabelled SICK-R")
    assert (row.apart, row.is_own) == (("ensemble", "transductive"), True)
    assert row.shown_system == "tncse (ensemble, transductive)"
    assert row.checkpoints == "single released checkpoint; seed fixed at 42"
    row = one("cotbert", "table2", "bert-base", "rankencoder")
    assert (row.reported_by, row.is_own, row.apart) == ("CoT-BERT", False, ())
    assert row.read_in.startswith("https://github.com/ZBWpro/CoT-BERT ")
    assert (len(recent), sum(bool(row.reported_by) for row in recent)) == (119, 39)
    for row in recent:
        assert ("ensemble" in row.apart) is (int(row.settings.get("encoders", 1)) > 1), row


def test_the_recent_averages_that_are_not_the_mean_are_told(recent) -> None:
    told = re.findall(r"`(\S+) (\S+)` (\S+) \((\S+)\)", (FIGURES / "README.md").read_text())
    found = []
    for row in recent:
        printed = 100 * row.scores["avg_sts"]
        mean = 100 * sum(row.scores[task] for task in STS_TASKS) / 7
        digits = (
            1 if all(round(1000 * score, 9).is_integer() for score in row.scores.values()) else 2
        )
        if abs(printed - mean) > 0.5 * 10**-digits + 1e-3:
            found.append((row.system, row.backbone, f"{printed:.{digits}f}", f"{mean:.2f}"))
    assert sorted(told) == sorted(found) and len(found) == 5


def test_no_number_is_lost_or_put_together() -> None:
    figures = 1512 + 219 + 42 + len(COSTS_IN_TEXT) + 952
    assert sum(len(row.scores) for row in published_rows()) == figures


def test_what_papers_repeat_is_one_row_with_all_sources() -> None:
    rows = merge_repeated_rows(published_rows(backbone="bert-base", method="simcse"))
    assert {(row.backbone, row.method) for row in rows} == {("bert-base", "simcse")}
    (original,) = (row for row in rows if row.scores.get("sts12") == 0.6840)
    expected = ("compcse table1", "rankcse table2", "whitenedcse table1", "hicl table10")
    assert original.sources == expected
    assert sum(row.scores.get("avg_sts") == 0.7625 for row in rows) == 2  # and table 4 of RankCSE
    own = one("rankcse", "table2", "bert-base", "rankcse", rank_loss="listnet")
    other = replace(own, paper="survey", table="1", settings={}, sources=("survey 1",))
    lone = replace(own, scores={"mr": 0.5})
    first, row, last = merge_repeated_rows([lone, other, own, replace(own, scores={"mr": 0.6})])
    assert (first.scores, last.scores) == ({"mr": 0.5}, {"mr": 0.6})  # which keep their order
    assert (row.paper, row.settings) == ("rankcse", {"rank_loss": "listnet"})
    assert row.sources == ("survey 1", "rankcse table2")
    rows = [r for r in published_rows() if (r.paper, r.table) == ("whitenedcse", "table4")]
    assert sum(row.scores["avg_sts"] == 0.7747 for row in rows) == 2
    assert merge_repeated_rows(rows) == rows


Write = Callable[..., Path]


def test_a_labs_rows_follow_the_packages_with_columns_in_any_order(lab_file: Write) -> None:
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
    # And a spreadsheet's mark at the start is no part of the head.
    file = lab_file(
        "80.36 , spearman,test,avg_sts,rankcse,bert-base,t,p",
        head="value,metric,split,task,method,backbone,table,paper",
    )
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    (row,) = read_rows(file)
    assert row.scores == {"avg_sts": 0.8036}
    assert (row.settings, row.configuration, row.std) == ({}, {}, {})
    file = lab_file(
        "80.36,spearman,test,avg_sts,rankcse,bert-base,t,p,2026,us,llm+ensemble",
        head="value,metric,split,task,method,backbone,table,paper,year,reported_by,apart",
    )
    (row,) = read_rows(file)
    assert (row.year, row.reported_by, row.apart) == (2026, "us", ("llm", "ensemble"))


def test_a_file_that_cannot_be_read_says_all_problems_at_once(lab_file, tmp_path) -> None:
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
    file = lab_file(head="paper,table,backbone,methd,task,split,metric,value,value")
    said = [f"  line 1: .*{what}.*" for what in ("'method' is missing", "'value' is th", "'methd'")]
    with pytest.raises(PublishedError, match="\n".join(said) + "$"):
        read_rows(file)
    (tmp_path / "latin.csv").write_bytes(b"paper,\xe9")
    (tmp_path / "empty.csv").touch()
    table = {
        "none": "No such file",
        "": "Is a directory",
        "latin": "line 1: byte 0xe9",
        "empty": "'paper'",
    }
    for name, said in table.items():
        with pytest.raises(PublishedError, match=said):
            published_rows(files=[tmp_path / f"{name}.csv" if name else tmp_path])
