"""Runs that another lab logged to MLflow come onto the leaderboard, once."""

from math import nan
from typing import Any

import pytest
from stored_trials import stored_scores, trials_of

from cse_platform.imports.records import apply_trials as bring_onto
from cse_platform.imports.runs import read_runs
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.store import Store
from cse_platform.leaderboard.trials import dev_curve


def rows(board: Store, sweep: str = "lab-b-bert-base") -> list[tuple[Any, ...]]:
    with board.session() as session:
        return [
            (r.number, r.seed, r.state, r.best_step, r.best_value)
            for r in trials_of(session, sweep)
        ]


def test_runs_become_trials(board, lab, bring, check_counters) -> None:
    lab.run({0: 30.0, 125: 78.0, 250: 77.0}, scores={"test/sts12": 68.4, "test/mr": 81.0})
    lab.run({0: 30.0, 125: 79.0}, {"seed": "1"})
    lab.run({0: 30.0}, {"seed": "2"}, status="RUNNING")
    lab.run({0: 30.0, 125: 40.0}, {"seed": "3"}, status="KILLED")
    lab.run({}, {"seed": "4"})
    lab.run({125: 84.0}, {"model": "roberta"})
    imported = bring(board, lab.mapping + lab.scores)
    assert (imported.new, imported.already_here, imported.gave_way) == (5, 0, 0)
    assert rows(board) == [
        (0, 42, "COMPLETE", 125, 0.78),
        (1, 1, "COMPLETE", 125, 0.79),
        (2, 3, "FAIL", 125, 0.4),
        (3, 4, "FAIL", None, None),
    ]
    assert rows(board, "lab-b-roberta-base") == [(0, 42, "COMPLETE", 125, 0.84)]
    check_counters(board)
    with board.session() as session:
        found = {row.backbone: row for row in board_rows(session)}
        bert = found["bert-base"]
        assert (bert.method, bert.seeds, bert.trials) == ("simcse", [1, 42], 4)
        assert bert.dev.source == "imported"
        assert bert.dev_score.mean == pytest.approx(0.785)
        assert bert.dev_untrained == pytest.approx(0.3)
        assert bert.configuration.values == {"learning_rate": 3e-5, "temperature": 0.05}
        first, *_, fail = trials_of(session, "lab-b-bert-base")
        assert "eval_stsb_spearman" in (fail.error or "")
        assert [(p.step, p.value) for p in dev_curve(session, first.key)] == [
            (0, 0.3),
            (125, 0.78),
            (250, 0.77),
        ]
        scored = stored_scores(session, first.key)
        assert [(s.task, s.metric, round(s.value, 6)) for s in scored] == [
            ("mr", "accuracy", 0.81),
            ("sts12", "spearman", 0.684),
        ]


@pytest.mark.slow
def test_again_adds_nothing_but_new_runs(here, lab, bring, contents) -> None:
    lab.run({125: 78.0})
    lab.run({125: 10.0}, {"seed": "1"}, status="FAILED")
    bring(here)
    before = contents(here)
    again = bring(here)
    assert (again.new, again.already_here) == (0, 2)
    assert contents(here) == before
    lab.run({125: 79.0}, {"seed": "1"})
    lab.run({125: 80.0}, {"seed": "2"})
    later = bring(here)
    assert (later.new, later.already_here, later.gave_way) == (2, 1, 1)
    assert rows(here) == [
        (0, 42, "COMPLETE", 125, 0.78),
        (1, 1, "COMPLETE", 125, 0.79),
        (3, 2, "COMPLETE", 125, 0.8),
    ]
    assert bring(here).new == 0


@pytest.mark.slow
def test_values_without_steps_and_repeated_ones(here, lab, bring) -> None:
    """Of one step the last value stays; without steps there is a value and no curve."""
    lab.run({0: 78.0})
    run = lab.run({0: 30.0, 125: 60.0, 250: nan}, {"seed": "1"})
    lab.client.log_metric(run, "eval_stsb_spearman", 61.0, lab.clock + 1000, 125)
    bring(here)
    assert rows(here) == [(0, 42, "COMPLETE", None, 0.78), (1, 1, "COMPLETE", 125, 0.61)]
    with here.session() as session:
        (row,) = board_rows(session)
        assert row.dev_untrained == pytest.approx(0.3)


@pytest.mark.slow
def test_a_whole_family_has_its_average(here, lab, bring) -> None:
    tasks = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
    scores = {f"test_{task}": 70.0 + place for place, task in enumerate(tasks)}
    lab.run({125: 78.0}, scores=scores)
    listed = "".join(f"  {task}: {{metric: test_{task}, scale: 100}}\n" for task in tasks)
    bring(here, lab.mapping + "scores:\n" + listed)
    with here.session() as session:
        (row,) = board_rows(session)
    assert row.scores["avg_sts"].mean == pytest.approx(0.73)
    assert row.scores["sickr"].mean == pytest.approx(0.76)


@pytest.mark.slow
def test_methods_that_are_not_ours_take_values_as_they_are(here, lab, bring) -> None:
    lab.run({125: 78.0}, {"temp": "None", "lr": "[1, 2]"}, tags={"paper": "PromptBERT"})
    bring(here, lab.mapping.replace("method: simcse", "method: {tag: paper}"))
    with here.session() as session:
        (row,) = board_rows(session)
    assert (row.method, row.sweep) == ("PromptBERT", "lab-b-PromptBERT-bert-base")
    assert row.configuration.values == {"learning_rate": [1, 2], "temperature": None}


@pytest.mark.slow
def test_a_folder_of_runs_is_a_store_too(tmp_path, monkeypatch, here, lab_at) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    (tmp_path / "mlruns").mkdir()
    lab = lab_at((tmp_path / "mlruns").as_uri(), "train")
    lab.run({125: 78.0})
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    (tmp_path / "mapping.yaml").write_text(lab.mapping)
    runs = read_runs(lab.uri, tmp_path / "mapping.yaml")
    bring_onto(here, runs.sweeps, source=runs.source)
    assert rows(here) == [(0, 42, "COMPLETE", 125, 0.78)]
