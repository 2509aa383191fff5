"""What another lab's runs lack, or a mapping file gets wrong, is told at once, and not imported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cse_platform.errors import ImportRefusedError, StoreError
from cse_platform.imports.runs import ImportedRuns, import_runs
from cse_platform.leaderboard.queries import leaderboard
from cse_platform.leaderboard.store import Leaderboard
from cse_platform.leaderboard.trials import trials_of


def test_what_runs_lack_is_told_all_at_once(
    here: Leaderboard, lab: Any, bring: Callable[..., ImportedRuns]
) -> None:
    lab.run({125: 78.0}, {"lr": "high", "seed": "x"}, name="one")
    lab.run({125: 7800.0}, {"model": "gpt2", "seed": "1", "temp": "-1"}, name="two")
    lab.run({125: 78.0}, {"seed": "2"}, name="good")
    with pytest.raises(ImportRefusedError, match="nothing is imported; mend ") as caught:
        bring(here)
    told = str(caught.value)
    assert "good" not in told
    assert "one" in told and "learning_rate: expected a number, got 'high'" in told
    assert "its seed must be a whole number from 0, got 'x'" in told
    assert "param 'model' is 'gpt2', which 'names' does not translate" in told
    assert "eval_stsb_spearman is 78, not between -1 and 1" in told
    assert "temperature: expected more than 0, got -1" in told
    with here.session() as session:
        assert leaderboard(session) == []


def test_percentages_are_suspected(
    here: Leaderboard, lab: Any, bring: Callable[..., ImportedRuns]
) -> None:
    lab.run({125: 78.0})
    with pytest.raises(ImportRefusedError, match=r"is it a percentage \(scale: 100\)\?"):
        bring(here, lab.mapping.replace("spearman, scale: 100", "spearman"))


def test_two_complete_runs_of_one_seed_are_refused(
    here: Leaderboard, lab: Any, bring: Callable[..., ImportedRuns]
) -> None:
    lab.run({125: 78.0}, name="one")
    bring(here)
    lab.run({125: 79.0}, name="two")
    message = r"run two \(\w+\) and run one .* are all complete, with seed 42"
    with pytest.raises(ImportRefusedError, match=message):
        bring(here)
    with here.session() as session:
        assert [r.best_value for r in trials_of(session, "lab-b-bert-base")] == [0.78]


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
def test_a_wrong_mapping_is_told_with_its_line(
    change: tuple[str, str],
    message: str,
    here: Leaderboard,
    lab: Any,
    bring: Callable[..., ImportedRuns],
) -> None:
    lab.run({125: 78.0}, scores={"test/sts12": 68.4, "test/mr": 81.0})
    with pytest.raises((ImportRefusedError, StoreError), match=message):
        bring(here, (lab.mapping + lab.scores).replace(*change))


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("sqlite:///{}/none.db", "no MLflow database /.*none.db"),
        ("file://{}/none", "no folder /.*/none of MLflow runs"),
        ("ftp://me:secret@lab/x", r"'ftp://me:\*\*\*@lab/x' is no MLflow store"),
    ],
)
def test_what_is_no_store_is_refused_and_not_made(
    uri: str, message: str, tmp_path: Path, here: Leaderboard, lab: Any
) -> None:
    (tmp_path / "mapping.yaml").write_text(lab.mapping)
    with pytest.raises(StoreError, match=message):
        import_runs(here, uri.format(tmp_path), tmp_path / "mapping.yaml")
    assert not list(tmp_path.glob("none*"))
