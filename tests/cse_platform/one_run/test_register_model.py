"""`cse-leaderboard register`: one version a trial in MLflow's registry, tied to the trial's run."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pytest
import yaml

from cse_platform.stores.mlflow.mirror import MLflowMirror

KEY, OTHER, THIRD = "0a1b2c3d" + "0" * 56, "0a1b2c3e" + "f" * 56, "dd" * 32
PAIR = ["A man plays a guitar.", "Someone makes music."]


@pytest.fixture(autouse=True)
def no_store(monkeypatch) -> None:
    """Nothing but what the command line names."""
    for name in ("CSE_STORE", "CSE_MLFLOW_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def lab(tmp_path_factory, put, began, life, mini_model, empty_mlflow) -> Path:
    """The runs folder of a sweep with three complete trials; MLflow has two of them."""
    runs = tmp_path_factory.mktemp("runs")
    models = {trial: str(mini_model(trial=trial)) for trial in (KEY, OTHER, THIRD)}
    other = life(OTHER, seed=7, begin=10, model=models[OTHER])
    events = [began(), *life(model=models[KEY]), *other]
    put(runs, *events, *life(THIRD, seed=8, begin=20, model=models[THIRD]))
    mirror = MLflowMirror(empty_mlflow(runs / "mlflow.db"), artifacts=runs / "artifacts")
    mirror.apply("j", list(enumerate(events, start=1)))
    return runs


@pytest.fixture
def client(lab) -> Any:
    """Of the lab's MLflow store."""
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{lab / 'mlflow.db'}")


def test_a_version_tells_of_its_trial(client, one_run, mini_model, lab) -> None:
    from cse_methods.encoders.loading import load_encoder

    done = one_run("register", KEY[:8], "a lab's encoder", "--runs", lab)
    assert done.exit_code == 0, done.output
    assert re.search("0a1b2c3d .* version 1 of a lab's encoder", done.stdout)
    (version,) = client.search_model_versions('name = "a lab\'s encoder"')
    assert (version.name, int(version.version)) == ("a lab's encoder", 1)
    told = {"trial": KEY, "method": "simcse", "backbone": "mini", "seed": "42"}
    told |= {"configuration": "c0de" * 16, "dev_value": "0.75"}
    assert version.tags.items() >= told.items()
    assert f"Trial {KEY}: simcse on mini, seed 42" in version.description
    run = client.get_run(version.run_id)
    assert (run.data.tags["trial"], run.info.status) == (KEY, "FINISHED")
    kept = Path(unquote(urlparse(version.source).path))
    assert kept.is_relative_to(lab / "artifacts")
    described = yaml.safe_load((kept / "MLmodel").read_text())
    assert "sentence_transformers" in described["flavors"]
    data = described["flavors"]["python_function"]["data"]
    ours = load_encoder(str(mini_model())).encode(PAIR)
    np.testing.assert_array_equal(load_encoder(str(kept / data)).encode(PAIR), ours)
    needed = (kept / "requirements.txt").read_text().splitlines()
    assert needed == ["sentence-transformers", "torch==2.9.0"]


def test_a_trial_is_registered_once_under_a_name(client, one_run, lab) -> None:
    def told(key: str, name: str) -> str:
        done = one_run("register", key, name, "--runs", lab)
        assert done.exit_code == 0, done.output
        return done.stdout

    for quoted in ("it's", 'a "b"'):
        told(KEY, quoted)
        assert "was already registered as version 1" in told(KEY, quoted)
    assert "is now version 1 of encoder" in told(KEY, "encoder")
    assert re.search("0a1b2c3d was already .* version 1 of encoder", told(KEY, "encoder"))
    assert "is now version 2 of encoder" in told(OTHER, "encoder")
    assert "is now version 1 of other" in told(KEY, "other")
    versions = client.search_model_versions("name = 'encoder'")
    assert {(one.tags["trial"], int(one.version)) for one in versions} == {(KEY, 1), (OTHER, 2)}


def test_a_name_that_mlflow_refuses_and_a_trial_that_it_lacks(client, one_run, lab) -> None:
    done = one_run("register", KEY, "a/b", "--runs", lab)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "Invalid model name 'a/b'" in done.stderr
    done = one_run("register", THIRD, "never", "--runs", lab)
    assert done.exit_code == 1
    assert f"trial {THIRD[:16]} in" in done.stderr
    assert "never" not in [one.name for one in client.search_registered_models()]


def test_without_an_mlflow_store_none_is_made(
    runs, fill, began, life, one_run, mini_model, monkeypatch
) -> None:
    fill(began(), *life(model=str(mini_model())))
    before = (runs / "leaderboard.db").read_bytes()
    done = one_run("register", KEY, "encoder")
    assert done.exit_code == 1
    assert str(runs / "mlflow.db") in done.stderr and "CSE_MLFLOW_URI" in done.stderr
    for file, told in {
        "nothere.db": "no MLflow database nothere.db",
        "runs/leaderboard.db": "is not an MLflow store",
    }.items():
        monkeypatch.setenv("CSE_MLFLOW_URI", f"sqlite:///{file}")
        done = one_run("register", KEY, "encoder")
        assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
        assert told in done.stderr
    assert (runs / "leaderboard.db").read_bytes() == before
    assert not (runs / "mlflow.db").exists()
    assert [path.name for path in runs.parent.iterdir()] == ["runs"]


def test_a_pooler_unknown_there_is_refused(runs, fill, began, life, one_run, mini_model) -> None:
    fill(began(), *life(model=str(mini_model("avg_top2"))))
    (runs / "mlflow.db").touch()
    done = one_run("register", KEY, "encoder")
    assert done.exit_code == 1 and "avg_top2" in done.stderr


@pytest.mark.real
def test_mlflow_loads_it(one_run, mini_model, lab, monkeypatch) -> None:
    pytest.importorskip("sentence_transformers")
    import mlflow

    from cse_methods.encoders.loading import load_encoder

    one_run("register", KEY, "loaded", "--runs", lab)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{lab / 'mlflow.db'}")
    ours = load_encoder(str(mini_model())).encode(PAIR)
    loaded = mlflow.sentence_transformers.load_model("models:/loaded/1").encode(PAIR)
    np.testing.assert_allclose(loaded, ours, rtol=1e-4, atol=1e-5)
    served = mlflow.pyfunc.load_model("models:/loaded/1").predict(PAIR)
    np.testing.assert_allclose(served, ours, rtol=1e-4, atol=1e-5)
