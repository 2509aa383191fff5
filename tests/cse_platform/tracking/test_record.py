"""Recording the trials of somebody's own script."""

import json
import math
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from failing import failing
from filelock import FileLock
from forked_processes import CONTEXT, DEV, RUN, SWEEP, record_between, record_one
from mlflow import MlflowClient
from processes import wait_until

from cse_methods import get_method
from cse_methods.tasks import STS_TASKS
from cse_platform import Filters, import_runs, open_leaderboard, record, record_scores
from cse_platform.errors import NoStoreError, QueryError, RecordingError, StoreError
from cse_platform.stores.rebuild import fill_search_store, rebuild
from cse_platform.stores.recording import fill_leaderboard, fill_stores
from cse_platform.tracking.journal import read_journal

ORIGIN = f"recorded by {Path(sys.argv[0]).name}"


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    for name in ("CSE_STORE", "CSE_MLFLOW_URI", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "runs"


@pytest.fixture
def no_process(monkeypatch) -> None:
    """No process fills stores beside the runs: the test does it itself, or reads the journal."""
    for home in ("own_script", "recorded_scores"):
        monkeypatch.setattr(f"cse_platform.{home}.start_filling", lambda journal: None)


def read_kinds(runs: Path, sweep: str = SWEEP) -> list[str]:
    journal = runs / "sweeps" / sweep / "journal.jsonl"
    return [json.loads(line)["kind"] for line in journal.read_text().splitlines()[1:]]


def test_a_recorded_run_is_on_the_leaderboard_and_in_mlflow(runs):
    for seed, best in ((0, 0.71), (1, 0.73)):
        with record(**RUN, seed=seed, runs=runs) as run:
            run.report(step=0, metrics={DEV: 0.5})
            run.report(step=100, metrics={DEV: best, "train/loss": 0.3})
            run.report(step=200, metrics={DEV: best - 0.01, "train/loss": 0.2})
            run.record_scores({"sts12": 0.6, "mr": 0.8})

    def is_filled() -> bool:
        with suppress(NoStoreError, StoreError), open_leaderboard(url) as board:
            return [(s.state, s.ended) for s in board.sweeps()] == [("COMPLETE", 2)]
        return False

    url = f"sqlite:///{runs}/leaderboard.db"
    wait_until(is_filled, "the leaderboard has the runs")
    client = MlflowClient(f"sqlite:///{runs}/mlflow.db")
    tested = "metrics.`test/sts12_spearman` > 0"
    wait_until(lambda: len(client.search_runs(["1"], tested)) == 2, "MLflow has the runs")
    assert fill_search_store([runs]) == []  # it is no search, so nothing is lacking
    with open_leaderboard(url) as board:
        [row] = board.rows(Filters(sweep=SWEEP))
        trial = board.trial(f"{SWEEP}#1")
    assert (row.method, row.backbone, row.n, row.dev.source) == ("mine", "bert-base", 2, "recorded")
    assert row.dev_score.mean == pytest.approx(0.72)
    assert {task: score.mean for task, score in row.scores.items()} == {"sts12": 0.6, "mr": 0.8}
    assert (trial.state, trial.seed, trial.origin) == ("COMPLETE", 1, ORIGIN)
    scores = [run.data.metrics["best/stsb_spearman"] for run in client.search_runs(["1"], tested)]
    assert sorted(scores) == [0.71, 0.73]


@pytest.mark.usefixtures("no_process")
@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_processes_at_once_lose_nothing_and_killed_ones_have_failed(runs, count):
    processes = [CONTEXT.Process(target=record_one, args=(runs, seed)) for seed in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    journal = runs / "sweeps" / "many" / "journal.jsonl"
    fill_stores(journal)
    with open_leaderboard(f"sqlite:///{runs}/leaderboard.db") as board:
        [row], [sweep] = board.rows(Filters(sweep="many")), board.sweeps()
    ends = [event for _, event in read_journal(journal) if event.kind == "trial_finished"]
    points = read_kinds(runs, "many").count("trial_point")
    assert (points, row.n, sweep.state) == (3 * count, 0.9 * count, "COMPLETE")
    assert [end.cause for end in ends if end.state == "FAIL"] == ["machine"] * (count // 10)


@pytest.mark.usefixtures("no_process")
def test_runs_at_once_keep_the_script_and_the_folder_of_each(runs, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["first.py", "0"])
    with record(**RUN, seed=0, runs=runs) as first:
        first.report(step=1, metrics={DEV: 0.6})
        monkeypatch.setattr("sys.argv", ["second.py", "1"])
        monkeypatch.chdir(tmp_path)
        with record(**RUN, seed=1, runs=runs) as second:
            second.report(step=1, metrics={DEV: 0.7})
        fill_leaderboard(second.journal)
        with open_leaderboard(f"sqlite:///{runs}/leaderboard.db") as board:
            [living] = board.running(SWEEP)
    fill_leaderboard(first.journal)
    with open_leaderboard(f"sqlite:///{runs}/leaderboard.db") as board:
        trials = [board.trial(run.trial) for run in (first, second)]
    assert (living.key, living.why) == (first.trial, None)
    assert [trial.origin for trial in trials] == ["recorded by first.py", "recorded by second.py"]
    starts = [start for trial in trials for start in trial.starts]
    assert [start.provenance["command"] for start in starts] == ["first.py 0", "second.py 1"]
    assert starts[1].provenance["folder"] == str(tmp_path)


@pytest.mark.usefixtures("no_process")
def test_a_run_that_begins_when_the_stores_are_all_but_full_is_stored_too(runs, monkeypatch):
    with record(**RUN, seed=0, runs=runs) as run:
        run.report(step=1, metrics={DEV: 0.6})
    begun, may_end = CONTEXT.Event(), CONTEXT.Event()
    other = CONTEXT.Process(target=record_between, args=(runs, begun, may_end))
    release, filler = FileLock.release, os.getpid()

    def release_and_go_on(lock: FileLock, *options: bool) -> None:
        release(lock, *options)
        if os.getpid() == filler and lock.lock_file.endswith("journal.jsonl.lock"):
            if other.pid is None:  # the living runs have just been counted: there is none
                other.start()
                begun.wait()
            else:
                may_end.set()

    monkeypatch.setattr(FileLock, "release", release_and_go_on)
    fill_stores(run.journal)
    with open_leaderboard(f"sqlite:///{runs}/leaderboard.db") as board:
        assert list(board.trials()["state"]) == ["COMPLETE"] * 2
    may_end.set()
    other.join()


@pytest.mark.usefixtures("no_process")
def test_the_events_of_a_journal_are_read_once(runs):
    with record(**RUN, seed=0, runs=runs) as run:
        header, *read = run.journal.read_text().splitlines()
        damaged = [json.dumps("?" * (len(line) - 2)) for line in read]
        run.journal.write_text("".join(f"{line}\n" for line in (header, *damaged)))
        run.report(step=2, metrics={DEV: 0.7})
    new = run.journal.read_text().splitlines()[1 + len(read) :]
    kinds = [json.loads(line)["kind"] for line in new]
    assert kinds == ["trial_point", "trial_finished", "sweep_finished"]


@pytest.mark.usefixtures("no_process")
def test_a_run_that_raises_is_a_failed_trial_and_can_be_recorded_again(runs):
    with pytest.raises(ZeroDivisionError), record(**RUN, seed=0, runs=runs) as run:
        run.report(step=0, metrics={DEV: 0.5})
        _ = 1 / 0
    with record(**RUN, seed=0, runs=runs) as run:
        run.report(step=0, metrics={DEV: 0.5})
        run.report(step=10, metrics={DEV: 0.6})
    events = [event for _, event in read_journal(runs / "sweeps" / SWEEP / "journal.jsonl")]
    ends = [event for event in events if event.kind == "trial_finished"]
    starts = [event for event in events if event.kind == "trial_started"]
    assert [(end.state, end.error) for end in ends] == [
        ("FAIL", "ZeroDivisionError: division by zero"),
        ("COMPLETE", None),
    ]
    assert [(start.trial, start.number) for start in starts] == [(run.trial, 0)] * 2


@pytest.mark.usefixtures("no_process")
def test_a_run_without_a_number_has_failed(runs, capsys):
    with record(**RUN, seed=0, runs=runs) as run:
        run.report(step=0, metrics={DEV: 0.5})
        run.report(step=4, metrics={DEV: float("nan")})
        run.report(step=5, metrics={DEV: float("nan")})
    assert capsys.readouterr().err.splitlines() == [
        f"{DEV} is not a number at step 4; this point is left out",
        f"the trial of seed 0 counts as failed: {DEV} is not a number at step 5",
    ]
    with record(**RUN, seed=1, runs=runs):
        pass
    events = [event for _, event in read_journal(runs / "sweeps" / SWEEP / "journal.jsonl")]
    assert [event.error for event in events if event.kind == "trial_finished"] == [
        f"{DEV} is not a number at step 5",
        "nothing was reported of a step above 0",
    ]


def record_run(runs: Path, *, dev: float, test: float, **changes: Any) -> None:
    with record(**{**RUN, "seed": 0, "runs": runs, **changes}) as run:
        run.report(step=1, metrics={DEV: dev})
        run.record_scores({"sts12": test})


def read_rows(url: str) -> list[tuple[str, float, float]]:
    """Read the sweep, the dev and the test score of each row."""
    with open_leaderboard(url) as board:
        rows = [(row.sweep, row.dev_score.mean, row.scores["sts12"].mean) for row in board.rows()]
    return sorted(rows)


@pytest.mark.usefixtures("no_process")
def test_a_name_of_another_runs_folder_is_refused_before_the_training(tmp_path, monkeypatch, runs):
    monkeypatch.setenv("CSE_STORE", url := f"sqlite:///{tmp_path}/lab.db")
    bob = tmp_path / "bob"
    record_run(runs, dev=0.7, test=0.6)
    refusal = rf"another sweep named '{SWEEP}', begun in {Path.cwd()} .*record\(sweep="
    for changes in ({}, {"seed": 11, "hyperparameters": {"temperature": 0.1}}):
        with pytest.raises(RecordingError, match=refusal):
            record_run(bob, dev=0.75, test=0.65, **changes)
    assert not bob.exists()
    record_run(bob, dev=0.75, test=0.65, sweep="bob")
    record_run(runs, dev=0.72, test=0.62, seed=1)  # the folder goes on
    fill_stores(runs / "sweeps" / SWEEP / "journal.jsonl")
    assert read_rows(url) == [("bob", 0.75, 0.65), (SWEEP, pytest.approx(0.71), 0.61)]


@pytest.mark.usefixtures("no_process")
def test_of_two_folders_that_begin_at_once_the_second_is_told_at_its_end(
    tmp_path, monkeypatch, runs, capsys
):
    monkeypatch.setenv("CSE_STORE", url := f"sqlite:///{tmp_path}/lab.db")
    with record(**RUN, seed=0, runs=tmp_path / "bob") as bob:
        record_run(runs, dev=0.7, test=0.6)
        assert capsys.readouterr().err == ""
        bob.report(step=1, metrics={DEV: 0.75})
        bob.record_scores({"sts12": 0.65})
    said = capsys.readouterr().err
    assert f"another sweep named '{SWEEP}'" in said and f"stays in {bob.journal}" in said
    record_scores(bob.trial, {"sts13": 0.5}, runs=tmp_path / "bob")
    assert f"stays in {bob.journal}" in capsys.readouterr().err
    fill_stores(bob.journal)
    assert read_rows(url) == [(SWEEP, 0.7, 0.6)]
    assert read_kinds(tmp_path / "bob")[-2:] == ["sweep_finished", "trial_evaluated"]
    rebuild(url, [tmp_path / "bob", runs])
    named, renamed = read_rows(url)  # of one name and seed, but nobody knows whether of one data
    assert named == (SWEEP, 0.75, 0.65)
    assert renamed[0].startswith(f"{SWEEP}.") and renamed[1:] == (0.7, 0.6)
    refusal = "not known to be the same"
    with open_leaderboard(url) as board, pytest.raises(QueryError, match=refusal):
        board.compare(named[0], renamed[0])


@pytest.mark.usefixtures("no_process")
def test_a_leaderboard_that_cannot_be_read_stops_no_script(tmp_path, monkeypatch, runs):
    (board := tmp_path / "lab.db").write_text("this is no database")
    monkeypatch.setenv("CSE_STORE", url := f"sqlite:///{board}")
    record_run(runs, dev=0.7, test=0.6)
    board.unlink()
    fill_stores(runs / "sweeps" / SWEEP / "journal.jsonl")
    assert read_rows(url) == [(SWEEP, 0.7, 0.6)]


REFUSED = {
    "seed": ({"seed": -1}, "seed: got -1"),
    "sweep": ({"sweep": "a/b"}, "sweep: "),
    "hyperparameter": ({"hyperparameters": {"model": object()}}, r"hyperparameters\['model'\]"),
    "code": ({"code": "/nowhere.py"}, "code: cannot read /nowhere.py"),
    "complete": ({"seed": 0}, r"seed 0 of these hyperparameters is complete .*, dev 50\.00\)"),
    "other method": ({"method": "yours", "sweep": SWEEP}, "has method mine, and this run yours"),
    "other dev set": ({"dev": "sickr"}, "has dev set stsb, and this run sickr"),
    "our backbone": ({"backbone": "BERT-base-uncased"}, "^backbone: .* did you mean 'bert-base'"),
    "our method": ({"method": " SimCSE"}, r"^method: .* got ' SimCSE'; did you mean 'simcse'"),
    "our dev set": ({"dev": "STS-B_spearman"}, "^dev: .* did you mean 'stsb'"),
}


@pytest.mark.usefixtures("no_process")
def test_what_cannot_be_recorded_is_refused_and_nothing_is_written(runs):
    with record(**RUN, seed=0, runs=runs) as run:
        run.report(step=1, metrics={DEV: 0.5})
        with pytest.raises(RecordingError, match="being recorded by another process"):
            record(**RUN, seed=0, runs=runs).__enter__()
    before, folders = read_kinds(runs), [*(runs / "sweeps").iterdir()]
    for changes, message in REFUSED.values():
        with (
            pytest.raises(RecordingError, match=message),
            record(**{**RUN, "seed": 5, "runs": runs, **changes}),
        ):
            pass
    assert read_kinds(runs) == before
    assert [*(runs / "sweeps").iterdir()] == folders


@pytest.mark.usefixtures("no_process")
def test_a_sweep_without_a_score_takes_another_dev_set(runs):
    own = {"dev/mine_spearman": 0.7}
    with pytest.raises(RecordingError, match="dev="), record(**RUN, seed=0, runs=runs) as run:
        run.report(step=1, metrics=own)
    with record(**RUN, seed=0, runs=runs, dev="mine") as run:
        with pytest.raises(RecordingError, match="has dev set mine, and this run stsb"):
            record(**RUN, seed=1, runs=runs).__enter__()
        run.report(step=1, metrics=own)
    with pytest.raises(RecordingError, match="has dev set mine, and this run stsb"):
        record(**RUN, seed=1, runs=runs).__enter__()
    fill_stores(runs / "sweeps" / SWEEP / "journal.jsonl")
    with open_leaderboard(f"sqlite:///{runs}/leaderboard.db") as board:
        [row] = board.rows(Filters(sweep=SWEEP))
        sweep = board.sweep(SWEEP)
    assert (row.dev.search, row.dev_score.mean) == ("mine", 0.7)
    assert (sweep.dev, sweep.state) == ("mine", "COMPLETE")
    assert (sweep.counts["FAIL"], sweep.counts["COMPLETE"]) == (1, 1)


REPORTS = {
    "no dev score": (5, {"train/loss": 1.0}, "dev/stsb_spearman is missing"),
    "percentage": (5, {DEV: 71.0}, f"^{DEV}: expected a fraction from -1 to 1, got 71$"),
    "unknown kind": (5, {DEV: 0.7, "loss": 1.0}, "got 'loss'"),
    "text": (5, {DEV: "good"}, "expected a number"),
    "earlier step": (2, {DEV: 0.7}, "expected a whole number above 2"),
}


@pytest.mark.usefixtures("no_process")
def test_an_invalid_report_is_refused_and_the_run_goes_on(runs):
    with record(**RUN, seed=0, runs=runs) as run:
        run.report(step=2, metrics={DEV: 0.5})
        for step, metrics, message in REPORTS.values():
            with pytest.raises(RecordingError, match=message):
                run.report(step=step, metrics=metrics)
        run.report(step=3, metrics={DEV: 0.6})
    assert read_kinds(runs).count("trial_point") == 2


@pytest.mark.usefixtures("no_process")
def test_a_score_of_an_unknown_task_or_scale_is_left_out_of_a_run_that_is_trained(runs, capsys):
    with record(**RUN, seed=0, runs=runs) as run:
        run.report(step=2, metrics={DEV: 0.5})
        run.record_scores({"sts12": 0.6, "ours": 0.7, "sts13": 70.12, "sts14": "good"})
        run.record_scores({"sts15": math.nan, "sts-16": 0.5})
        run.record_scores({"nonsense": 0.5})  # which can never be added
    events = [event for _, event in read_journal(runs / "sweeps" / SWEEP / "journal.jsonl")]
    evaluated, finished, _ = events[-3:]
    assert [(score.task, score.value) for score in evaluated.scores] == [("sts12", 0.6)]
    assert finished.state == "COMPLETE"
    told = capsys.readouterr().err.splitlines()
    way_out = f"cse_platform.record_scores('{SWEEP}#0', {{task: score}}, runs='{runs}') adds scores"
    left_out = " (this score is left out)"
    for line, problem in zip(
        told,
        (
            "no task 'ours' is known; expected one of sts12, ",
            "sts13: got 70.12, expected a fraction from -1 to 1; did you mean 0.7012?",
            "scores['sts14']: got 'good', expected a number",
            "",
            "sts15: got nan, expected a fraction from -1 to 1",
            "no task 'sts-16' is known; did you mean 'sts16'?",
            "",
            "no task 'nonsense' is known; expected one of sts12, ",
        ),
        strict=True,
    ):
        assert problem in line and line.endswith(left_out if problem else way_out)


def test_test_scores_are_added_to_a_complete_run_from_other_processes(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("CSE_STORE", url := f"sqlite:///{tmp_path}/lab.db")
    first, second, third, *others = STS_TASKS
    for seed in (0, 1):
        with record(**RUN, seed=seed, runs=runs) as run:
            run.report(step=2, metrics={DEV: 0.5})
            run.record_scores({first: 0.63, second: 0.1})
    assert (run.sweep, run.number) == (SWEEP, 1)
    added: dict[str, float] = {second: 0.7, third: 0.7, **dict.fromkeys(others, 0.7)}
    halves = {f"{SWEEP}#1": (second, third), run.trial: others}  # both at once
    command = "import sys, json, cse_platform\ncse_platform.record_scores(*json.loads(sys.argv[1]))"
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                command,
                json.dumps([name, {task: added[task] for task in half}]),
            ],
            cwd=runs.parent,
        )
        for name, half in halves.items()
    ]
    assert [process.wait() for process in processes] == [0, 0]
    with open_leaderboard(url) as board:
        before, after = (
            {s.task: s.value for s in board.trial(f"{SWEEP}#{number}").scores if s.split == "test"}
            for number in (0, 1)
        )
    assert before == {first: 0.63, second: 0.1}
    assert after == {first: 0.63, **added, "avg_sts": pytest.approx(0.69)}
    client = MlflowClient(f"sqlite:///{runs}/mlflow.db")
    tested = "metrics.`test/avg_sts_spearman` > 0.68"
    wait_until(lambda: len(client.search_runs(["1"], tested)) == 1, "MLflow has the scores")


@pytest.mark.usefixtures("no_process")
def test_scores_of_what_is_no_complete_recorded_run_are_refused(runs):
    with record(**RUN, seed=0, runs=runs) as run:
        run.report(step=2, metrics={DEV: 0.5})
    with suppress(ZeroDivisionError), record(**RUN, seed=1, runs=runs):
        _ = 1 / 0
    table = pd.DataFrame([{"run": "a", "method": "mine", "backbone": "bert-base", "seed": 1}])
    import_runs(table.assign(state="complete", **{"dev.stsb": 0.5}), sweep="lab-b", runs=runs)
    searched = runs / "sweeps" / "searched" / "journal.jsonl"
    searched.parent.mkdir()
    searched.write_text(run.journal.read_text().replace('"source":"recorded",', ""))
    before = read_kinds(runs)

    def refuse(case: str) -> None:
        trial, scores, message = NO_RUNS[case]
        with pytest.raises(RecordingError, match=message):
            record_scores(trial, scores, runs=runs)

    with record(**RUN, seed=2, runs=runs):
        assert not failing(refuse, NO_RUNS)
    assert "trial_evaluated" not in read_kinds(runs) and read_kinds(runs)[: len(before)] == before
    assert {path.name for path in (runs / "sweeps").iterdir()} == {SWEEP, "searched"}


SCORES = {"sts12": 0.7}
NO_RUNS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no sweep": ("none#0", SCORES, "no sweep in .*runs has a trial 'none#0'; expected SWEEP#N"),
    "no number": (f"{SWEEP}#9", SCORES, f"has a trial '{SWEEP}#9'"),
    "no key": ("0" * 64, SCORES, "has a trial '000"),
    "no name": ("", SCORES, "has a trial ''"),
    "failed": (f"{SWEEP}#1", SCORES, r"#1 has failed \(ZeroDivisionError.*only complete runs"),
    "running": (f"{SWEEP}#2", SCORES, "#2 has not ended, and only complete runs"),
    "searched": ("searched#0", SCORES, "trial of cse-sweep.*; cse-evaluate searched#0 scores it"),
    "imported": ("lab-b#0", SCORES, r"was imported, .* its columns test\.TASK"),
    "no scores": (f"{SWEEP}#0", {}, "scores: got none"),
    "no numbers": (
        f"{SWEEP}#0",
        {"sts12": True, "sts13": "0.5", "sts14": np.bool_(True)},
        "^scores.'sts12'.: got True, expected a number; .*'0.5', expected.*; .*expected a number$",
    ),
    "average": (
        f"{SWEEP}#0",
        {**dict.fromkeys(STS_TASKS, 0.6), "avg_sts": 0.6002},
        r"^avg_sts: got 0\.6002, and its tasks' mean is 0\.6000$",
    ),
    "wrong scores": (
        f"{SWEEP}#0",
        {"sts12": 0.7, "sts13": 70.12, "sick-r": 0.7, "stsb": "?"},
        "^sts13: .* did you mean 0.7012.; .* did you mean 'sickr'.; .* expected a number$",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("no_process")
def test_the_average_of_a_family_comes_with_its_last_task(runs):
    first, *others = STS_TASKS
    with record(**RUN, seed=0, runs=runs) as run:
        run.report(step=2, metrics={DEV: 0.5})
        run.record_scores({first: 0.63})
        run.record_scores({"mr": 0.9, **dict.fromkeys(others, 0.7)})
    fill_stores(runs / "sweeps" / SWEEP / "journal.jsonl")
    with open_leaderboard(f"sqlite:///{runs}/leaderboard.db") as board:
        [row] = board.rows()
    assert row.scores["avg_sts"].mean == pytest.approx(0.69)
    assert row.scores.keys() == {*STS_TASKS, "avg_sts", "mr"}


@pytest.mark.usefixtures("no_process")
def test_changed_code_makes_a_new_trial(runs, tmp_path):
    script, trials = tmp_path / "train.py", set()
    for text in ("loss = 1\n", "loss = 2\n", "loss = 2\n"):
        script.write_text(text)
        with suppress(RecordingError), record(**RUN, seed=0, runs=runs, code=script) as run:
            run.report(step=1, metrics={DEV: 0.5})
            trials.add(run.trial)
    assert len(trials) == 2


@pytest.mark.usefixtures("no_process")
def test_a_method_of_the_package_trains_in_a_recorded_run(runs):
    simcse = get_method("simcse")
    fixed = {"backbone": "mini", "corpus": "builtin", "data": "builtin", "batch_size": 8}
    config = simcse.config(**fixed, max_steps=2, eval_steps=1, max_length=16)
    with record(**RUN, seed=3, runs=runs) as run:
        simcse.train(config, run)
    ends = [event for _, event in read_journal(run.journal) if event.kind == "trial_finished"]
    assert [(end.state, end.best_value) for end in ends] == [
        ("COMPLETE", max(run.points[step][DEV] for step in (1, 2)))
    ]
