import re
import sqlite3
from contextlib import closing
from math import nan
from typing import Any

import pytest
from commands import invoke
from stored_trials import stored_scores, trials_of
from sweep_events import check_counters

from cse_platform.cli.leaderboard import main
from cse_platform.errors import ImportRefusedError, NotFoundError, StoreError
from cse_platform.imports.runs import read_runs
from cse_platform.imports.trials import import_trials
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.trials import dev_curves
from cse_platform.stores.sql.store import Store


def rows(board: Store, sweep: str = "lab-b-bert-base") -> list[tuple[Any, ...]]:
    with board.session() as session:
        return [
            (r.number, r.seed, r.state, r.best_step, r.best_value)
            for r in trials_of(session, sweep)
        ]


def test_runs_become_trials(board, lab, bring) -> None:
    lab.run({0: 30.0, 125: 78.0, 250: 77.0}, scores={"test/sts12": 68.4, "test/mr": 81.0})
    lab.run({0: 30.0, 125: 79.0}, {"seed": "1"})
    lab.run({0: 30.0}, {"seed": "2"}, status="RUNNING")
    lab.run({0: 30.0, 125: 40.0}, {"seed": "3"}, status="KILLED")
    lab.run({}, {"seed": "4"})
    lab.run({125: 84.0}, {"model": "roberta"})
    imported = bring(board, lab.mapping + lab.scores)
    assert imported == (5, 0)
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
        assert [(p.step, p.value) for p in dev_curves(session, [first.key])[first.key]] == [
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
def test_methods_that_are_not_ours_take_values_as_they_are(here, lab, bring) -> None:
    for seed, nothing in {"1": "None", "2": ""}.items():
        params = {"seed": seed, "temp": nothing, "lr": "[1, 2]"}
        lab.run({125: 78.0}, params, tags={"paper": "PromptBERT"})
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
    trials, source, _ = read_runs(lab.uri, tmp_path / "mapping.yaml", mlflow=True)
    import_trials(here, trials, source=source, runs=tmp_path)
    assert rows(here) == [(0, 42, "COMPLETE", 125, 0.78)]


def test_what_runs_lack_is_told_all_at_once(here, lab, bring) -> None:
    lab.run({125: 78.0}, {"lr": "high", "seed": "x"}, name="one")
    lab.run({125: 7800.0}, {"model": "gpt2", "seed": "1", "temp": "-1"}, name="two")
    lab.run({125: 78.0}, {"seed": "2"}, name="good")
    with pytest.raises(ImportRefusedError, match="nothing was imported; correct ") as caught:
        bring(here)
    told = str(caught.value)
    assert "good" not in told
    assert "one" in told and "learning_rate: expected a number, got 'high'" in told
    for fault in (
        "seed .* 'x'",
        "params.model is 'gpt2'",
        "eval_stsb_spearman is 78",
        "temperature: .* -1",
    ):
        assert re.search(fault, told)
    with here.session() as session:
        assert board_rows(session) == []


@pytest.mark.slow
def test_percentages_and_second_runs_of_a_seed_are_refused(here, lab, bring) -> None:
    lab.run({125: 78.0}, name="one")
    with pytest.raises(ImportRefusedError, match=r"is it a percentage \(scale: 100\)\?"):
        bring(here, lab.mapping.replace("spearman, scale: 100", "spearman"))
    bring(here)
    lab.run({125: 79.0}, name="two")
    message = r"run one \(\w+\) and run two .* are all complete, with equal seeds"
    with pytest.raises(ImportRefusedError, match=message):
        bring(here)
    assert [row[-1] for row in rows(here)] == [0.78]


WRONG_MAPPINGS = {
    ("lr", "larning_rate"): "line 7, hyperparameters.learning_rate: no run has a param",
    ("temperature:", "temprature:"): "line 8, .*temprature: simcse has no such .* 'temperature'",
    ("eval_stsb", "evel_stsb"): "line 9, dev.metric: no run has a metric 'evel_stsb_spearman'",
    ("param: model", "param: modl"): "line 4, backbone.param: .* did you mean 'model'",
    ("sts12:", "sts11:"): "line 11, scores.sts11: no task 'sts11'; did you mean",
    ("{param: seed}", "{}"): "line 5, seed: expected one of 'param', 'tag' and 'value'",
    ("sweep: lab-b", "swep: lab-b"): "the key 'sweep' is missing",
    ("seed: {param: seed}", "seed: -1"): "line 5, seed: expected at least 0, got -1",
    ("seed: {param: seed}", "seed: {value: x}"): "line 5, seed.value: expected a whole number",
    ("method: simcse", "method: [simcse]"): "line 3, method: expected text, got",
    ("dev:", "step: epoch\ndev:"): "line 9, step: not for MLflow's runs, which have steps",
    ("experiments: [train]", "experiments: [trian]"): "no experiment 'trian'; there are",
}


@pytest.mark.slow
def test_a_wrong_mapping_is_told_with_its_line(here, lab, bring) -> None:
    lab.run({125: 78.0}, scores={"test/sts12": 68.4, "test/mr": 81.0})
    for change, message in WRONG_MAPPINGS.items():
        with pytest.raises((ImportRefusedError, NotFoundError), match=message):
            bring(here, (lab.mapping + lab.scores).replace(*change))


@pytest.mark.slow
def test_what_is_no_store_is_refused_and_neither_made_nor_upgraded(tmp_path, lab) -> None:
    (tmp_path / "mapping.yaml").write_text(lab.mapping)
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("CREATE TABLE experiments (experiment_id INTEGER)")
    before = (tmp_path / "old.db").read_bytes()
    for uri, message in {
        "sqlite:///{}/none.db": "no MLflow database /.*none.db",
        "file://{}/none": "no folder /.*/none of MLflow runs",
        "file://{}": "not an MLflow store: it has no experiments, which",
        "ftp://me:secret@lab/x": r"'ftp://me:\*\*\*@lab/x' is not an MLflow store",
        "sqlite:///{}/old.db": "has an older schema, .* `mlflow db upgrade`",
    }.items():
        with pytest.raises(StoreError, match=message):
            read_runs(uri.format(tmp_path), tmp_path / "mapping.yaml", mlflow=True)
    assert not list(tmp_path.glob("none*")) and (tmp_path / "old.db").read_bytes() == before


@pytest.mark.slow
def test_the_command_tells_what_came(lab, tmp_path) -> None:
    lab.run({125: 78.0})
    lab.run({125: 78.0}, {"seed": "1"}, status="RUNNING")
    name = lab.client.get_experiment(lab.experiment).name
    mapping = tmp_path / "m.yaml"
    mapping.write_text(lab.mapping.replace("[train]", f"['{name}']"))
    words = ["import", lab.uri, "--mapping", mapping, "--runs"]
    assert invoke(main, *words, tmp_path / "runs").output == (
        "Runs: 2, 1 of them still running and left out\nTrials: 1 new, 0 already here\n"
    )
    mapping.write_text("sweep: x")
    told = invoke(main, *words, tmp_path / "none", code=1)
    assert not (tmp_path / "none").exists()
    assert "m.yaml is not a mapping of runs:\n  line 1: the key " in told.output
    assert "  line 1: the key 'experiments' is missing\n" in told.output
