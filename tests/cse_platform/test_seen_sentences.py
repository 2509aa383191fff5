import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from clean_runs import KEYS, evaluated, url
from commands import invoke
from letter_models import Letters
from scored_boards import few_resamples as few_resamples
from sqlalchemy import update
from stored_trials import fill_store, stored_test_accesses
from sweep_events import opening, sweep_started, trial_life

from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import TrainingData, sentence_key
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.tasks import STS_TASKS
from cse_platform.cli.leaderboard import main
from cse_platform.export.model_card import model_card
from cse_platform.leaderboard import open_leaderboard, ranking
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import AttemptRecord

KEY = "d" * 64


@pytest.fixture(scope="module")
def taught_runs(tmp_path_factory, scored_runs, lab_file) -> Path:
    """The runs of `clean_runs`, and a trial of hicl: taught by a teacher that saw pairs, trained
    on twelve sentences of STS12, and chosen by a lab's file with half of the pairs of STS13."""
    folder = tmp_path_factory.mktemp("taught")
    runs, corpus = shutil.copytree(scored_runs, folder / "runs"), folder / "corpus.txt"
    corpus.write_text("\n".join([*load_pair_set("sts12", "builtin").first[:12], "nothing"]))
    dev = DevSelection.model_validate({"checkpoint": str(lab_file), "search": "stsb"})
    training = TrainingData(
        dev=dev,
        chosen_on=("lab", "stsb"),
        corpora=(CorpusSpec(name=str(corpus)),),
        teachers=("minilm",),
        data="builtin",
    )
    values = {"teachers": ["minilm"], "tau2": 0.05}
    of = {"sweep": "hicl", "method": "hicl", "configuration": "h" * 64, "values": values}
    events = [
        sweep_started("hicl", method="hicl"),
        *trial_life(0, {10: 0.7}, trial=KEY, seed=1, **of),
        evaluated(KEY, "hicl", Letters(skip=3), training=training),
    ]
    fill_store(url(runs), events, journal="taught")
    return runs


@pytest.fixture
def taught(taught_runs, tmp_path) -> Path:
    return shutil.copytree(taught_runs, tmp_path / "runs")


def run(runs: Path, *words: str) -> str:
    return invoke(main, *words, "--runs", runs).output


def test_show_counts_each_set_and_says_what_is_declared(taught) -> None:
    text = run(taught, "show", KEY[:8])
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "marks teacher saw pairs, saw test sentences" in lines
    assert any(line.startswith("teacher minilm more than a billion pairs") for line in lines)
    assert any(line.startswith("backbone mini about 200,000 sentences") for line in lines)
    sts12 = load_pair_set("sts12", "builtin")
    keys = {sentence_key(text) for text in (*sts12.first, *sts12.second)}
    seen = len({sentence_key(text) for text in sts12.first[:12]})
    [line] = [line for line in lines if line.startswith("sts12 test training corpus")]
    found = [str(len(keys)), str(seen), f"{100 * seen / len(keys):.2f}"]
    assert line.split()[-3:] == found
    record = json.loads(run(taught, "show", KEY[:8], "--json"))
    assert record["marks"] == ["teacher saw pairs", "saw test sentences"]
    assert {one["seen_in"] for one in record["seen"]} == {"corpus", "dev"}
    assert {one["metric"] for one in record["scores"]}.isdisjoint({"in_corpus", "in_dev"})
    with open_leaderboard(taught) as board:
        card = model_card(board.trial(KEY), pooler="cls")
    assert "| `marks` | teacher saw pairs, saw test sentences |" in card
    assert f"or its own dev files: sts12 {seen} of {len(keys)} (corpus), sts13 " in card


def test_a_trial_that_nobody_counted_says_what_counts(taught) -> None:
    text = run(taught, "show", "c" * 8)
    assert "have not been counted" not in text  # no test access was recorded
    opened = opening(KEYS["c"], sweep="simcse", tasks=STS_TASKS, source="builtin", who="ann@host")
    fill_store(url(taught), [opened], journal="evaluations")
    before = accesses_of(taught)
    text = run(taught, "show", "c" * 8)
    assert "have not been counted" in text and "marks" not in text
    assert "counts them" not in text  # no model of it was kept
    with open_store(url(taught)) as board, board.session() as session, session.begin():
        session.execute(update(AttemptRecord).values(model="/models/c"))
    text = run(taught, "show", "c" * 8)
    assert f"cse-evaluate {'c' * 8} --runs {taught} counts them" in text
    run(taught, "audit", "--paper", "whitenedcse")
    run(taught, "--tasks", "clean")
    assert accesses_of(taught) == before


def test_the_board_marks_the_row_in_every_format(taught) -> None:
    for form in ("table", "markdown", "html"):
        text = run(taught, "--format", form)
        assert "◊" in text and "°" in text and "learned from pairs" in text, form
    assert "corpus 12 of" in run(taught, "--show", "sweeps")
    latex = run(taught, "--format", "latex")
    assert r"\diamond" in latex and r"\circ" in latex and "learned from pairs" in latex
    rows = {row["method"]: row for row in json.loads(run(taught, "--format", "json"))}
    assert rows["hicl"]["marks"] == ["teacher saw pairs", "saw test sentences"]
    assert (rows["simcse"]["marks"], rows["simcse"]["seen"]) == ([], [])
    of_tests = [one for one in rows["hicl"]["seen"] if one["split"] == "test"]
    assert [one["task"] for one in of_tests if one["seen_in"] == "corpus"] == list(STS_TASKS)
    [sts13] = [one for one in of_tests if (one["task"], one["seen_in"]) == ("sts13", "dev")]
    assert 0 < sts13["seen"] < sts13["sentences"] and sts13["names"] == ["lab"]
    lines = {
        row["method"]: row for row in csv.DictReader(io.StringIO(run(taught, "--format", "csv")))
    }
    assert json.loads(lines["hicl"]["seen"]) == rows["hicl"]["seen"]
    assert lines["hicl"]["marks"] == "teacher saw pairs; saw test sentences"
    compared = " ".join(run(taught, "compare", "hicl", "simcse").split())
    assert "one of its teachers learned from pairs of sentences: hicl." in compared
    assert "own dev files contain sentences of these test sets: hicl." in compared


def test_clean_rows_keep_the_groups_of_their_pairs(cleaned, monkeypatch) -> None:
    def width() -> float:
        with Leaderboard(open_store(url(cleaned))) as reader:
            compared = reader.compare("rankcse", "simcse", tasks="clean")
        assert not compared.limits.ungrouped
        [task] = [task for task in compared.tasks if task.task == "sts13_clean"]
        return task.interval.high - task.interval.low

    alone = width()
    monkeypatch.setattr(ranking, "known_groups", lambda gold: np.arange(len(gold)) // 8)
    assert width() != alone


def accesses_of(runs: Path) -> list[object]:
    with open_store(url(runs)) as board, board.session() as session:
        return stored_test_accesses(session)


def test_a_trial_without_clean_scores_names_what_computes_them(scored_runs) -> None:
    assert "cse-evaluate TRIAL --tasks sts" in run(scored_runs, "--tasks", "clean")
    words = ["compare", "rankcse", "simcse", "--tasks", "clean", "--runs", scored_runs]
    compared = invoke(main, *words, code=1)
    assert "cse-evaluate TRIAL --tasks sts" in compared.output


@pytest.mark.slow
def test_clean_scores_are_shown_when_asked_for(cleaned) -> None:
    assert "clean" not in run(cleaned, "--format", "json")
    rows = json.loads(run(cleaned, "--tasks", "clean", "--format", "json"))
    for row in rows:
        assert row["headline"] == "avg_sts_clean"
        columns = (*STS_TASKS, "avg_sts")
        assert set(row["test"]) == {*(f"{task}_clean" for task in columns), *columns}
        assert row["test"]["sts13"] != row["test"]["sts13_clean"]
    changes = [row["test"]["avg_sts_clean"] - row["test"]["avg_sts"] for row in rows]
    for form in ("table", "latex", "markdown", "html"):
        text = run(cleaned, "--tasks", "clean", "--format", form)
        assert "Against all rows" in text, form
    plain = run(cleaned, "--tasks", "clean")
    line = next(line for line in plain.splitlines() if "Against" in line)
    for change in (min(changes), max(changes)):
        assert f"{100 * change:+.2f}" in line


def test_a_comparison_is_over_the_clean_pairs(cleaned) -> None:
    with Leaderboard(open_store(url(cleaned))) as reader:
        clean = reader.compare("rankcse", "simcse", tasks="clean")
        whole = reader.compare("rankcse", "simcse")
    pairs = {task.task: task.examples for task in clean.tasks}
    assert pairs["sts12_clean"] == 120
    assert pairs["sts13_clean"] == 60
    assert {task.examples for task in whole.tasks} == {120}
    [sts12] = [task for task in whole.tasks if task.task == "sts12"]
    [kept] = [task for task in clean.tasks if task.task == "sts12_clean"]
    assert (kept.mean_a, kept.williams_p) == (sts12.mean_a, sts12.williams_p)
    assert clean.average is not None and whole.average is not None
    on_all = clean.limits.all_rows
    assert on_all is not None and on_all.effect == pytest.approx(whole.average.effect)
    assert on_all.change == pytest.approx(clean.average.effect - whole.average.effect)
