"""What another lab's runs lack, or a mapping file gets wrong, is told at once, and not imported."""

import re
import sqlite3
from contextlib import closing

import pytest
from stored_trials import trials_of

from cse_platform.errors import ImportRefusedError, NotFoundError, StoreError
from cse_platform.imports.runs import read_runs
from cse_platform.leaderboard.board import board_rows


def test_what_runs_lack_is_told_all_at_once(here, lab, bring) -> None:
    lab.run({125: 78.0}, {"lr": "high", "seed": "x"}, name="one")
    lab.run({125: 7800.0}, {"model": "gpt2", "seed": "1", "temp": "-1"}, name="two")
    lab.run({125: 78.0}, {"seed": "2"}, name="good")
    with pytest.raises(ImportRefusedError, match="nothing is imported; mend ") as caught:
        bring(here)
    told = str(caught.value)
    assert "good" not in told
    assert "one" in told and "learning_rate: expected a number, got 'high'" in told
    for fault in (
        "seed .* 'x'",
        "'model' is 'gpt2'",
        "eval_stsb_spearman is 78",
        "temperature: .* -1",
    ):
        assert re.search(fault, told)
    with here.session() as session:
        assert board_rows(session) == []


@pytest.mark.slow
def test_a_rehearsal_is_refused(here, lab, bring) -> None:
    lab.run({125: 78.0}, tags={"cse.smoke": "True"}, name="rehearsed")
    with pytest.raises(ImportRefusedError, match=r"rehearsed.*: a rehearsal, made by cse-sweep"):
        bring(here)


@pytest.mark.slow
def test_percentages_are_suspected(here, lab, bring) -> None:
    lab.run({125: 78.0})
    with pytest.raises(ImportRefusedError, match=r"is it a percentage \(scale: 100\)\?"):
        bring(here, lab.mapping.replace("spearman, scale: 100", "spearman"))


@pytest.mark.slow
def test_two_complete_runs_of_one_seed_are_refused(here, lab, bring) -> None:
    lab.run({125: 78.0}, name="one")
    bring(here)
    lab.run({125: 79.0}, name="two")
    message = r"run one \(\w+\) and run two .* are all complete, with seed 42"
    with pytest.raises(ImportRefusedError, match=message):
        bring(here)
    with here.session() as session:
        assert [r.best_value for r in trials_of(session, "lab-b-bert-base")] == [0.78]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("lr", "larning_rate"), "line 7, hyperparameters.learning_rate: no run has a param"),
        (("temperature:", "temprature:"), "no such hyperparameter; did you mean 'temperature'"),
        (
            ("eval_stsb", "evel_stsb"),
            "line 9, dev.metric: no run has a metric 'evel_stsb_spearman'",
        ),
        (("param: model", "param: modl"), "line 4, backbone.param: .* did you mean 'model'"),
        (("sts12:", "sts11:"), "line 10, scores: no task 'sts11'; did you mean"),
        (("{param: seed}", "{}"), "line 5, seed: expected one of 'param' and 'tag'"),
        (("sweep: lab-b", "swep: lab-b"), "the key 'sweep' is missing"),
        (("seed: {param: seed}", "seed: -1"), "line 5, seed: expected at least 0"),
        (("experiments: [train]", "experiments: [trian]"), "no experiment 'trian'; there are"),
    ],
)
def test_a_wrong_mapping_is_told_with_its_line(change, message, here, lab, bring) -> None:
    lab.run({125: 78.0}, scores={"test/sts12": 68.4, "test/mr": 81.0})
    with pytest.raises((ImportRefusedError, NotFoundError), match=message):
        bring(here, (lab.mapping + lab.scores).replace(*change))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("sqlite:///{}/none.db", "no MLflow database /.*none.db"),
        ("file://{}/none", "no folder /.*/none of MLflow runs"),
        ("file://{}", "not an MLflow store: it holds no experiments, folders with a meta.yaml"),
        ("ftp://me:secret@lab/x", r"'ftp://me:\*\*\*@lab/x' is not an MLflow store"),
    ],
)
def test_what_is_no_store_is_refused_and_not_made(uri, message, tmp_path, lab) -> None:
    (tmp_path / "mapping.yaml").write_text(lab.mapping)
    with pytest.raises(StoreError, match=message):
        read_runs(uri.format(tmp_path), tmp_path / "mapping.yaml")
    assert not list(tmp_path.glob("none*"))


@pytest.mark.slow
def test_a_store_of_an_older_mlflow_is_refused_and_stays_as_it_is(lab, tmp_path) -> None:
    """MLflow would upgrade it."""
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, old:
        old.execute("CREATE TABLE experiments (experiment_id INTEGER)")
    before = (tmp_path / "old.db").read_bytes()
    (tmp_path / "mapping.yaml").write_text(lab.mapping)
    with pytest.raises(StoreError, match=r"is of an older schema, .* `mlflow db upgrade`"):
        read_runs(f"sqlite:///{tmp_path / 'old.db'}", tmp_path / "mapping.yaml")
    assert (tmp_path / "old.db").read_bytes() == before
