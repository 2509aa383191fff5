import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pytest
import yaml
from commands import invoke
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache
from one_trial import KEY, began, evaluated, life, one_run
from stored_trials import fill_store

from cse_platform.cli.evaluate import main as cse_evaluate
from cse_platform.kept_models import TRIAL_FILE
from cse_platform.leaderboard import open_leaderboard
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.sweep.yaml_file import read_yaml
from cse_platform.tracking.events import Event

OTHER = "0a1b2c3e" + "f" * 56
OUT = Path("out")
PAIR = ["A man plays a guitar.", "Someone makes music."]


def head(card: str) -> dict[str, Any]:
    _, yaml, _ = card.split("---\n", maxsplit=2)
    source = read_yaml(yaml)
    assert source.problems == []
    return source.data


def similarity(folder: Path) -> float:
    from cse_methods.evaluation.models import open_model
    from cse_methods.metrics import cosines

    (_, vectors), *_ = open_model(str(folder)).batches(PAIR)
    return cosines(vectors[:1], vectors[1:]).item()


@pytest.fixture
def kept(fill, mini_model) -> Callable[..., None]:
    """Puts a trial with a model of its own on the leaderboard."""

    def put(*more: Event, pooler: str = "cls", trial: str = KEY) -> None:
        fill(began(), *life(model=str(mini_model(pooler, trial=trial))), *more)

    return put


def test_it_is_the_same_model_also_from_a_store(fill, mini_model, tmp_path) -> None:
    model = mini_model()
    fill(began(), *life(model=str(model)))
    done = one_run("export", KEY[:8], OUT)
    assert done.stderr == "", done.output
    assert similarity(OUT) == similarity(model) < 0.999
    names = [path.name for path in model.iterdir()]
    assert {path.name for path in OUT.iterdir()} == {"README.md", *names}
    shutil.copytree(model, tmp_path / "store")
    (tmp_path / "store" / TRIAL_FILE).write_text(KEY)
    fill(began(), *life(model=f"file://{tmp_path / 'store'}"))
    one_run("export", KEY, "fetched")
    assert Path("fetched", TRIAL_FILE).read_text() == KEY


def test_of_a_sweep_it_is_the_best_trial(kept) -> None:
    kept(*life(OTHER, seed=7, begin=10, best_value=0.5))
    done = one_run("export", "first", OUT)
    assert f"the model of trial {KEY[:8]}" in done.output
    assert "'nosuch' was not found" in one_run("export", "nosuch", OUT, code=1).stderr


def test_the_card(fill, mini_model) -> None:
    fill(
        began(provenance={"package_commit": "c0ffee", "host": "secret-host", "torch": "2.9.0"}),
        *life(model=str(mini_model())),
        *life(OTHER, seed=7, begin=10, best_value=0.5),
        *evaluated(),
    )
    one_run("export", KEY, OUT)
    card = (OUT / "README.md").read_text()
    assert head(card) == {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "feature-extraction", "simcse"],
    }
    for line in (
        "# simcse on mini",
        "trained from mini on builtin with seed 42",
        "[SimCSE: Simple Contrastive Learning of Sentence Embeddings](https://arxiv.org/abs/2104.08821)",
        "| `temperature` | 0.05 | searched |",
        "| `stsb` | dev | spearman | 75.00 | dev-1 |",
        "| `stsb` | test | spearman | 50.00 | e1e1e1e1 |",
        "over the seeds 7, 42 of these settings: 62.50 ± 17.68.",  # |0.75 - 0.5| / sqrt(2)
        f"| `trial` | {KEY} |",
        "| `package_commit` | c0ffee |",
        "| `torch` | 2.9.0 |",
        "license:",
    ):
        assert line in card, line
    assert "secret-host" not in card and "| uniformity |" not in card


def test_the_hub_s_names_of_backbone_and_corpus(fill, mini_model) -> None:
    started, *rest = life(model=str(mini_model()))
    dev = started.dev | {"corpus": "wiki1m+wikitext103+/own/lines.txt"}
    fill(began(), started.model_copy(update={"backbone": "bert-base", "dev": dev}), *rest)
    one_run("export", KEY, OUT)
    told = head((OUT / "README.md").read_text())
    assert told["base_model"] == "google-bert/bert-base-uncased"
    assert told["datasets"] == ["princeton-nlp/datasets-for-simcse", "Salesforce/wikitext"]


def test_a_pooler_that_the_library_lacks_is_said_and_not_registered(kept, runs) -> None:
    from cse_methods.encoders.loading import load_encoder
    from cse_methods.metrics import cosines

    kept(pooler="avg_top2")
    done = one_run("export", KEY, OUT)
    assert "it uses the pooler avg_top2," in done.stderr
    card = (OUT / "README.md").read_text()
    assert "library_name" not in head(card) and "SentenceTransformer(" not in card
    assert 'encoder = load_encoder("FOLDER")' in card
    vectors = load_encoder(str(OUT)).encode(PAIR)
    assert cosines(vectors[:1], vectors[1:]).item() == pytest.approx(similarity(OUT), abs=1e-6)
    (runs / "mlflow.db").touch()
    done = one_run("register", KEY, "encoder", code=1)
    assert "avg_top2" in done.stderr


def test_a_trial_without_a_model(runs, fill) -> None:
    ends: list[tuple[dict[str, Any], str]] = [
        ({"state": None}, "it is not finished"),
        ({"state": "PRUNED"}, "it was pruned"),
        ({"state": "FAIL", "error": "no"}, "it failed"),
        ({}, "its best checkpoint was not kept"),
    ]
    for end, reason in ends:
        fill(began(), *life(**end))
        (runs / "mlflow.db").touch()
        for command in ("export", "register"):
            done = one_run(command, KEY, OUT, code=1)
            assert reason in done.stderr and "cse-leaderboard re" in done.stderr
            assert not OUT.exists()
    fill(began(), *life(model="/nowhere/gone"))
    done = one_run("export", KEY, OUT, code=1)
    assert "/nowhere/gone" in done.stderr
    assert not OUT.exists()


def test_a_folder_with_something_in_it_or_of_another_trial_is_refused(kept) -> None:
    kept()
    OUT.mkdir()
    (OUT / "mine").touch()
    done = one_run("export", KEY, OUT, code=1)
    assert "the folder out is not empty (mine)" in done.stderr
    assert [path.name for path in OUT.iterdir()] == ["mine"]
    kept(trial=OTHER)
    done = one_run("export", KEY, "other", code=1)
    assert not Path("other").exists()
    assert "is not the model of trial 0a1b2c3d" in done.stderr


def test_nothing_behind_a_link_is_exported_registered_or_scored(fill, runs, mini_model) -> None:
    """A runs folder from elsewhere can have links to what only its reader may see."""
    storage, private = runs / "artifacts/models", runs.parent / "private"
    private.mkdir()
    (private / "letter.txt").write_text("dear diary")

    def make_model() -> Path:
        return Path(shutil.copytree(mini_model(), storage / KEY[:16]))

    def link_file(model: Path) -> Path:
        (model / "letter.txt").symlink_to(private / "letter.txt")
        return model / "letter.txt"

    def link_folder(model: Path) -> Path:
        (model / "1_Pooling" / "more").symlink_to(private)
        return model / "1_Pooling" / "more"

    def link_model(model: Path) -> Path:
        shutil.move(model, private / "moved")
        model.symlink_to(private / "moved")
        return model

    def link_storage(model: Path) -> Path:
        shutil.move(storage, private / "models")
        storage.symlink_to(private / "models")
        return model

    def make_pipe(model: Path) -> Path:
        os.mkfifo(model / "pipe")
        return model / "pipe"

    for harm in (link_file, link_folder, link_model, link_storage, make_pipe):
        model = make_model()
        fill(began(), *life(model=str(model)))
        (runs / "mlflow.db").touch()
        link = harm(model)
        for words in (["export", KEY, OUT], ["register", KEY, "name"]):
            done = one_run(*words, code=1)
            assert f"{link} is a link or behind one" in done.stderr, harm
        done = invoke(cse_evaluate, KEY[:8], "--data", "builtin", "--tasks", "stsb", code=1)
        assert f"{link} is a link or behind one" in done.stderr, harm
        assert not OUT.exists()
        for left in (storage, private / "moved", private / "models"):
            left.unlink() if left.is_symlink() else shutil.rmtree(left, ignore_errors=True)
    runs.rename(runs.parent / "disk")
    runs.symlink_to(runs.parent / "disk")  # a link that leads to the storage is its user's own
    fill(began(), *life(model=str(make_model())))
    one_run("export", KEY, OUT)


def test_an_exported_model_can_be_scored_without_another_row(kept, runs, monkeypatch) -> None:
    """What is recorded of a folder is that test sets were opened; scores are of a named trial. The
    data are those of its sweep, whatever CSE_DATA names.
    """
    kept()
    monkeypatch.setenv("CSE_DATA", "./elsewhere")
    one_run("export", KEY, OUT)
    for model, scored in ((str(OUT), set()), (KEY[:8], {"stsb"})):
        done = invoke(cse_evaluate, model, "--tasks", "stsb")
        assert ("recorded by `cse-evaluate 0a1b2c3d`" in done.stderr) is not bool(scored)
        assert "reading builtin, the data of its sweep, not CSE_DATA; --data" in done.stderr
        with open_leaderboard(runs) as board:
            [row], details = board.rows(), board.trial(KEY)
        assert row.scores.keys() == scored
        commands = [each["command"] for each in details.test_accesses]
        assert commands == ["cse-evaluate"] * (1 + len(scored))


def test_scoring_names_the_trial_and_the_seeds_that_a_sweep_has_besides(fill) -> None:
    fill(
        began(),
        *life(model="gone"),
        *life(OTHER, seed=0, model="gone", best_value=0.5),
        *life("0a1b2c3f" + "0" * 56, seed=1, best_value=0.5),  # its model was not kept
    )
    others = "cse-evaluate KEY scores the other seeds of its configuration: 0a1b2c3e (seed 0)"
    for name, more in {"first": [others], "simcse@c0de": [others], "first#42": []}.items():
        done = invoke(cse_evaluate, name, "--data", "builtin", "--tasks", "stsb", code=1)
        lines = done.stderr.splitlines()
        at = lines.index("scoring trial 0a1b2c3d, first#42, seed 42")
        assert [line for line in lines[at + 1 :] if "cse-evaluate KEY" in line] == more, name


@pytest.mark.real
@pytest.mark.parametrize("pooler", ["cls", "avg"])
def test_sentence_transformers_loads_it(kept, pooler) -> None:
    library = pytest.importorskip("sentence_transformers")
    from cse_methods.encoders.loading import load_encoder

    kept(pooler=pooler)
    one_run("export", KEY, OUT)
    theirs = library.SentenceTransformer(str(OUT), device="cpu").encode(PAIR)
    np.testing.assert_allclose(theirs, load_encoder(str(OUT)).encode(PAIR), rtol=1e-4, atol=1e-5)


THIRD = "dd" * 32


@pytest.fixture(scope="module")
def lab(tmp_path_factory, mini_model, empty_leaderboard, empty_mlflow) -> Path:
    """The runs folder of a sweep with three complete trials; MLflow has two of them."""
    runs = tmp_path_factory.mktemp("runs")
    models = {trial: str(mini_model(trial=trial)) for trial in (KEY, OTHER, THIRD)}
    other = life(OTHER, seed=7, begin=10, model=models[OTHER])
    events = [began(), *life(model=models[KEY]), *other]
    third = life(THIRD, seed=8, begin=20, model=models[THIRD])
    fill_store(empty_leaderboard(runs / "leaderboard.db"), [*events, *third])
    mirror = MLflowMirror(empty_mlflow(runs / "mlflow.db"), artifacts=runs / "artifacts")
    mirror.apply("j", list(enumerate(events, start=1)))
    return runs


@pytest.fixture
def client(lab) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{lab / 'mlflow.db'}")


def test_a_version_tells_of_its_trial(client, mini_model, lab) -> None:
    from cse_methods.encoders.loading import load_encoder

    done = one_run("register", KEY[:8], "a lab's encoder", "--runs", lab)
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


def test_a_version_goes_only_where_this_lab_keeps_artifacts(
    lab, tmp_path, monkeypatch, hook
) -> None:
    """The database of a colleague can name any place for the artifacts of a run."""
    theirs, port = tmp_path / "theirs", hook.server.server_port
    theirs.mkdir()
    runs = Path(shutil.copytree(lab, tmp_path / "runs"))
    (runs / "artifacts").mkdir(exist_ok=True)
    (runs / "artifacts" / "link").symlink_to(theirs)
    locations = {
        theirs.as_uri(): False, str(theirs): False, f"{runs}/artifacts/../../theirs/a": False,
        f"file:{runs}/artifacts/%2e%2e/%2e%2e/theirs": False, f"{runs}/artifacts/link/a": False,
        f"{runs}/artifacts": False, f"http://127.0.0.1:{port}/a": False, "s3://bucket/a": False,
        f"mlflow-artifacts://127.0.0.1:{port}/a": False, "mlflow-artifacts:/a": False,
        "http://[": False, "file://[": False, "": False,
        "runs:/abc/": False, "models:/encoder/1": False, "dbfs:/a": False, "relative": False,
        f"{runs}/artifacts/a": True, (runs / "artifacts" / "b c").as_uri(): True,
    }  # fmt: skip
    for number, (location, is_ours) in enumerate(locations.items()):
        copy = f"{runs}/{number}.db"
        shutil.copy(runs / "mlflow.db", copy)
        with closing(sqlite3.connect(copy)) as store, store:
            store.execute("UPDATE runs SET artifact_uri = ?", (location,))
        monkeypatch.setenv("CSE_MLFLOW_URI", f"sqlite:///{copy}")
        _artifact_repos_cache.clear()  # a process that starts has seen no other store
        done = one_run("register", KEY, "own", "--runs", runs, code=not is_ours)
        assert is_ours or f"names {location} for the artifacts" in done.stderr, location
    assert not [*theirs.iterdir()] and hook.requests == hook.heard == []
    _artifact_repos_cache.clear()
    monkeypatch.setenv("CSE_MLFLOW_URI", f"sqlite:///{runs}/0.db")
    monkeypatch.setenv("MLFLOW_DEFAULT_ARTIFACT_ROOT", tmp_path.as_uri())  # the lab's own folder
    one_run("register", KEY, "own", "--runs", runs)
    assert (theirs / "model" / "MLmodel").exists()


def test_a_trial_is_registered_once_under_a_name_that_mlflow_takes(client, lab) -> None:
    def told(key: str, name: str) -> str:
        done = one_run("register", key, name, "--runs", lab)
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
    done = one_run("register", KEY, "a/b", "--runs", lab, code=1)
    assert done.stderr.count("\n") == 1
    assert "Invalid model name 'a/b'" in done.stderr
    done = one_run("register", THIRD, "never", "--runs", lab, code=1)
    assert f"trial {THIRD[:16]} in" in done.stderr
    assert "never" not in [one.name for one in client.search_registered_models()]


def test_without_an_mlflow_store_none_is_made(runs, fill, mini_model, monkeypatch) -> None:
    fill(began(), *life(model=str(mini_model())))
    before = (runs / "leaderboard.db").read_bytes()
    done = one_run("register", KEY, "encoder", code=1)
    assert str(runs / "mlflow.db") in done.stderr and "CSE_MLFLOW_URI" in done.stderr
    for file, told in {
        "nothere.db": "no MLflow database nothere.db",
        "runs/leaderboard.db": "is not an MLflow store",
    }.items():
        monkeypatch.setenv("CSE_MLFLOW_URI", f"sqlite:///{file}")
        done = one_run("register", KEY, "encoder", code=1)
        assert done.stderr.count("\n") == 1
        assert told in done.stderr
    assert (runs / "leaderboard.db").read_bytes() == before
    assert not (runs / "mlflow.db").exists()
    assert [path.name for path in runs.parent.iterdir()] == ["runs"]


@pytest.mark.real
def test_mlflow_loads_it(mini_model, lab, monkeypatch) -> None:
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
