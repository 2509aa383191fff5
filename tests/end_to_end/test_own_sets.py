import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
from commands import invoke
from own_tasks import write_folder
from sweeps import Sweep

from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.sweep.file import load_sweep

ROWS = ["sentence1\tsentence2\tscore", *(f"猫 {n}\t狗 {n}\t{n / 4}" for n in range(21))]
DEV = {"checkpoint": "./zh-dev.tsv", "search": "./zh-dev.tsv", "also": ["stsb"]}
ONE = {"sampler": "random", "trials": 1, "seed": 6}


def rows_of(runs: Path, query: str, file: str = "leaderboard.db") -> list[tuple[Any, ...]]:
    with sqlite3.connect(runs / file) as store:
        return store.execute(query).fetchall()


def write_pairs(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "zh-dev.tsv"
    file.write_text("\n".join(ROWS), encoding="utf-8")
    return file


def test_own_dev_set(run_in_process, new_sweep, tmp_path, monkeypatch) -> None:
    first = tmp_path / "first"
    write_pairs(first)
    sweep: Sweep = new_sweep(first, dev=DEV, search=ONE)
    planned = run_in_process(sweep, "--dry-run")
    line = f"dev set zh-dev: 21 pairs of {first / 'zh-dev.tsv'}, scores 0 to 5 (found)"
    assert line in planned.output
    ran = run_in_process(sweep)
    assert line in ran.output
    (trial,) = sweep.history().trials.values()

    scored = rows_of(sweep.runs, "SELECT task, value FROM scores WHERE task = 'zh-dev'")
    assert scored == [("zh-dev", trial.best_value)]
    logged = rows_of(
        sweep.runs, "SELECT DISTINCT key FROM metrics WHERE key LIKE '%zh-dev%'", "mlflow.db"
    )
    assert {key for (key,) in logged} == {"dev/zh-dev_spearman", "best/zh-dev_spearman"}
    board = invoke(cse_leaderboard, "--runs", sweep.runs, "--json")
    (row,) = json.loads(board.output)
    assert (row["dev"]["search"], row["dev"]["source"]) == ("zh-dev", "file")
    assert row["dev_mean"] == trial.best_value

    moved = sweep.copied(tmp_path / "moved")  # another folder, the same pairs: the same sweep
    shutil.rmtree(first)
    monkeypatch.chdir(tmp_path)
    again = run_in_process(moved)
    assert "already complete" in again.output

    file = moved.file.parent / "zh-dev.tsv"
    file.write_text("\n".join([*ROWS[:-1], "猫\t狗\t2.5"]), encoding="utf-8")
    changed = run_in_process(moved, code=1)
    assert "dev.files.zh-dev.sha256" in changed.stderr and "--set sweep=" in changed.stderr
    file.unlink()
    gone = run_in_process(moved, code=1)
    assert "./zh-dev.tsv: no such file of pairs" in gone.stderr


def test_a_retrieval_set_guides_a_search(run_in_process, new_sweep, tmp_path) -> None:
    folder = tmp_path / "first"
    write_folder(folder / "faq")
    faq = {"retrieval": "./faq"}
    dev = {"checkpoint": faq, "search": ["stsb", faq], "also": []}
    sweep: Sweep = new_sweep(folder, dev=dev, search=ONE, evaluate={"top": 1, "tasks": [faq]})
    (spec,) = load_sweep(sweep.file).stages
    assert spec.own_test_files == [str(folder / "faq/qrels/test.tsv")]
    sweep.change(evaluate=None)
    line = "dev set retrieval:faq: 30 corpus, 9 queries, 9 relevant_docs of "
    assert line in run_in_process(sweep, "--dry-run").output
    run_in_process(sweep)
    (trial,) = sweep.history().trials.values()
    logged = rows_of(sweep.runs, "SELECT DISTINCT key FROM metrics", "mlflow.db")
    name = "stsb_retrieval:faq_mean"
    assert {f"dev/{name}", f"best/{name}"} <= {key for (key,) in logged}
    (row,) = json.loads(invoke(cse_leaderboard, "--runs", sweep.runs, "--json").output)
    assert (row["dev"]["search"], row["dev_mean"]) == ("stsb+retrieval:faq", trial.best_value)

    moved = sweep.copied(tmp_path / "moved")
    shutil.rmtree(folder)
    assert "already complete" in run_in_process(moved).output
    shutil.copy(moved.file.parent / "faq/qrels/dev.tsv", moved.file.parent / "faq/qrels/test.tsv")
    moved.change(evaluate={"top": 1, "tasks": [faq]})
    same = run_in_process(moved, "--dry-run", code=1)
    assert "qrels/test.tsv holds the same rows as the dev set" in same.stderr
    moved.change(evaluate=None)
    file = moved.file.parent / "faq/qrels/dev.tsv"
    file.write_text(file.read_text().replace("\t0\n", "\t1\n", 1))
    changed = run_in_process(moved, code=1)
    assert "was started with dev.files.retrieval:faq.sha256 = " in changed.stderr


def test_a_dev_set_on_a_split_of_tests_is_refused(run_in_process, new_sweep, tmp_path) -> None:
    pytest.importorskip("mteb")
    also = ["mteb:NanoNFCorpusRetrieval"]
    sweep: Sweep = new_sweep(tmp_path, dev={"also": also}, search=ONE)
    refused = run_in_process(sweep, "--dry-run", code=1)
    assert "'train' is a split on which the task is evaluated (train)" in refused.stderr


def test_one_file_cannot_be_dev_and_test_set(run_in_process, new_sweep, tmp_path: Path) -> None:
    copy = tmp_path / "copy.tsv"
    copy.write_bytes(write_pairs(tmp_path).read_bytes())
    evaluate = {"top": 1, "tasks": ["./copy.tsv"]}
    both: Sweep = new_sweep(tmp_path, dev=DEV, search=ONE, evaluate=evaluate)
    ran = run_in_process(both, "--dry-run", code=1)
    assert "copy.tsv holds the same pairs as the dev set" in ran.stderr
