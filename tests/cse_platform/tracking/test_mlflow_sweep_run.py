import base64
import json
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache
from mlflow_history import (
    HASH,
    JOURNAL,
    client_of,
    finished,
    forget_position,
    numbered,
    point,
    runs_in,
    sweep_started,
    trial_started,
)

from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.mlflow.run_writer import VIEW_TAG
from cse_platform.stores.mlflow.sweep_run import find_mirrored_sweep, sweep_run
from cse_platform.tracking.events import AnnotationWritten, Event

SPEC = {
    "sweep": "s1", "corpus": "wiki1m", "fixed": {"epochs": 3, "batch_size": 64},
    "space": {"learning_rate": {"low": 1e-5, "high": 1e-3}, "tau3": [0.1]},
    "search": {"sampler": "tpe", "trials": 4, "seed": 7},
    "pruner": {"kind": "median"},
}  # fmt: skip
BEST = "best/stsb_spearman"


def trial(number: int, value: float, state: str = "COMPLETE", **values: Any) -> list[Event]:
    second, key = 10 * number + 1, f"t{number}"
    return [
        trial_started(second, key, values={"epochs": 3, **values}),
        point(second + 1, 10, value, key),
        finished(
            second + 2, key, state=state, best_value=value,
            best_metrics={"dev/stsb_spearman": value, "dev/uniformity": -value},
        ),
    ]  # fmt: skip


def mirrored(uri: str, *events: Event, start: int = 0) -> None:
    MLflowMirror(uri).apply(JOURNAL, numbered([*events])[start:])


def curve(uri: str, metric: str = BEST) -> list[tuple[int, float]]:
    """Of the sweep's run."""
    history = client_of(uri).get_metric_history(runs_in(uri)["s1"].info.run_id, metric)
    return sorted((one.step, one.value) for one in history)


def test_it_has_the_best_so_far_over_its_trials_and_the_leader(uri) -> None:
    mirrored(
        uri,
        sweep_started(spec=SPEC),
        *trial(0, 0.5, learning_rate=1e-4, tau3=0.1),
        *trial(1, 0.9, "PRUNED", learning_rate=2e-4),
        *trial(2, 0.7, learning_rate=3e-4),
        *trial(3, 0.6, learning_rate=4e-4),
    )
    assert curve(uri) == [(1, 0.5), (2, 0.5), (3, 0.7), (4, 0.7)]
    assert curve(uri, "best/uniformity") == [(1, -0.5), (3, -0.7)]
    known = runs_in(uri)["s1"].data.tags
    leader = {"best_trial": "t2", "best_configuration": HASH, "best.learning_rate": "0.0003"}
    assert (leader | {"best.tau3": ""}).items() <= known.items()


def test_its_parameters_are_what_cannot_change_and_its_budget_can(uri) -> None:
    mirrored(uri, sweep_started(spec=SPEC))
    run = runs_in(uri)["s1"].data
    assert run.params == {
        "search.sampler": "tpe", "search.seed": "7", "search.objectives": "stsb (maximize)",
        "space.learning_rate": '{"high":0.001,"low":1e-05}', "space.tau3": "[0.1]",
        "epochs": "3", "batch_size": "64",
    }  # fmt: skip
    assert (run.tags["search.trials"], run.tags["pruner"]) == ("4", '{"kind":"median"}')
    extended = SPEC | {"search": {"sampler": "tpe", "trials": 6, "seed": 7}, "pruner": "none"}
    mirrored(uri, sweep_started(spec=SPEC), sweep_started(9, spec=extended), start=1)
    run = runs_in(uri)["s1"].data
    assert (run.tags["search.trials"], run.tags["pruner"]) == ("6", "none")


def test_a_trial_beyond_a_constraint_does_not_lead(uri) -> None:
    bounded = SPEC | {"search": {"constraints": ["uniformity <= -0.6"]}}
    mirrored(uri, sweep_started(spec=bounded), *trial(0, 0.5), *trial(1, 0.7), *trial(2, 0.4))
    assert curve(uri) == [(2, 0.7), (3, 0.7)]


def test_a_trial_that_ends_again_counts_again_and_one_told_again_does_not(uri) -> None:
    failed = trial(0, 0.5, "FAIL")
    again = [trial_started(50, "t0"), finished(55, "t0", best_value=0.6)]
    entries = numbered([sweep_started(spec=SPEC), *failed, *again, *trial(9, 0.8)])
    for _ in range(2):
        MLflowMirror(uri).apply(JOURNAL, entries)
        forget_position(uri)
    assert curve(uri) == [(2, 0.6), (3, 0.8)]


def columns(uri: str) -> list[str]:
    """Of the saved view."""
    state = json.loads(view(uri))["state"].removeprefix("deflate;")
    found: list[str] = json.loads(zlib.decompress(base64.b64decode(state)))["selectedColumns"]
    return found


def view(uri: str) -> str:
    return str(client_of(uri).get_experiment_by_name("cse").tags[VIEW_TAG])


def test_the_view_has_the_hyperparameters_that_sweeps_vary_and_scores(uri) -> None:
    other = {"sweep": "s2", "space": {"alpha": [1, 2], "tau3": [1, 2]}, "dev": {"search": "sickr"}}
    mirrored(uri, sweep_started(spec=SPEC), sweep_started(9, "s2", spec=other))
    wanted = [BEST, "best/sickr_spearman", "test/avg_sts_spearman"]
    assert {f"metrics.`{name}`" for name in wanted} <= {*columns(uri)}
    varied = [name for name in columns(uri) if name.startswith("params.")]
    assert varied == ["params.`learning_rate`", "params.`tau3`", "params.`alpha`"]
    many = {"sweep": "s3", "space": {f"setting_{n * 7919 % 997}_{n}": [1, 2] for n in range(400)}}
    MLflowMirror(uri).apply("another", numbered([sweep_started(9, "s3", spec=many)]))
    assert len(columns(uri)) == 100


def test_a_view_that_a_user_changed_stays(uri) -> None:
    mirrored(uri, sweep_started(spec=SPEC))
    client = client_of(uri)
    changed = view(uri).replace("seeds averaged", "mine")
    client.set_experiment_tag(client.get_experiment_by_name("cse").experiment_id, VIEW_TAG, changed)
    other = {"sweep": "s2", "space": {"alpha": [1, 2]}}
    mirrored(uri, sweep_started(spec=SPEC), sweep_started(9, "s2", spec=other), start=1)
    assert view(uri) == changed


def test_what_people_write_is_on_the_runs_that_it_is_about(uri) -> None:
    def written(about: str, name: str, **what: Any) -> Event:
        fields = {"sweep": "s1", "about": about, "name": name, "who": "ann", **what}
        return AnnotationWritten.model_validate(fields)

    mirrored(uri, sweep_started(spec=SPEC), *trial(0, 0.5), *trial(1, 0.7))
    notes = [
        written("sweep", "s1", note="for the paper", star=True),
        written("trial", "t0", note="odd", tags={"a": True, "b": True}),
        written("configuration", HASH, star=True),
        written("trial", "t0", note="", tags={"b": False}),
    ]
    MLflowMirror(uri).apply("annotations", numbered(notes))
    known = {run.data.tags.get("trial", name): run.data.tags for name, run in runs_in(uri).items()}
    assert {"note": "for the paper", "star": "true"}.items() <= known["s1"].items()
    assert {"tag.a": "true", "configuration_star": "true"}.items() <= known["t0"].items()
    assert {"note", "tag.b"}.isdisjoint(known["t0"])
    assert "configuration_star" in known["t1"]
    assert {"tag.a", "note"}.isdisjoint(known["t1"])


def published(folder: Path) -> list[str]:
    """The reports that a runs folder has in its artifacts."""
    return [file.read_text() for file in folder.glob("*/*/*/report.html")]


@pytest.fixture
def publish(new_store, tmp_path) -> Callable[[str, str], str]:
    """Adds a report to the run of the sweep in a runs folder; returns the id of the run."""
    report = tmp_path / "report"
    report.mkdir()
    new_store("a/mlflow.db")
    mirror = MLflowMirror(f"sqlite:///{tmp_path}/a/mlflow.db", artifacts=tmp_path / "a/artifacts")
    mirror.apply(JOURNAL, numbered([sweep_started(spec=SPEC)]))

    def publish(folder: str, text: str) -> str:
        _artifact_repos_cache.clear()  # a process that starts has seen no other store
        (report / "report.html").write_text(text)
        uri = f"sqlite:///{tmp_path}/{folder}/mlflow.db"
        run = sweep_run(uri, experiment="cse", sweep="s1", journal=JOURNAL)
        run.add(report)
        return str(runs_in(uri)["s1"].info.run_id)

    return publish


def delete_runs(runs: Path) -> None:
    """Delete what MLflow has of the sweep in a runs folder."""
    uri, artifacts = f"sqlite:///{runs}/mlflow.db", runs / "artifacts"
    named = {"experiment": "cse", "sweep": "s1", "journal": JOURNAL}
    found = find_mirrored_sweep(uri, artifacts=artifacts, **named)
    found.delete({JOURNAL})


def test_a_copied_database_has_its_artifacts_beside_it(publish, tmp_path) -> None:
    """MLflow stores whole paths: a copy would write into its original's, and delete them."""
    original, copy = tmp_path / "a", tmp_path / "b"
    run = publish("a", "first")
    client = client_of(f"sqlite:///{original}/mlflow.db")
    client.create_registered_model("best")
    client.create_model_version("best", client.get_run(run).info.artifact_uri)
    shutil.copytree(original, copy)
    publish("b", "second")
    assert (published(original), published(copy)) == (["first"], ["second"])
    place = client_of(f"sqlite:///{copy}/mlflow.db").get_model_version_download_uri("best", "1")
    assert place == f"file://{copy}/artifacts/{run}/artifacts"
    delete_runs(copy)
    assert (published(original), published(copy)) == (["first"], [])


def test_a_database_without_the_mark_is_marked_where_its_artifacts_lie(publish, tmp_path) -> None:
    """As earlier versions made it; a copy that was made before deletes nothing of the original."""
    original, copy, late = (tmp_path / name for name in ("a", "b", "c"))
    publish("a", "first")
    with closing(sqlite3.connect(original / "mlflow.db")) as store, store:
        store.execute("DELETE FROM experiment_tags WHERE key = 'cse.artifacts_beside_database'")
    shutil.copytree(original, copy)
    delete_runs(copy)
    assert (published(original), published(copy)) == (["first"], ["first"])
    mirror = MLflowMirror(f"sqlite:///{original}/mlflow.db", artifacts=original / "artifacts")
    mirror.position(JOURNAL)  # opens it
    shutil.copytree(original, late)
    publish("c", "second")
    assert (published(original), published(late)) == (["first"], ["second"])


def test_no_folder_of_others_is_deleted_as_artifacts(publish, tmp_path, caplog) -> None:
    run, thesis = publish("a", "first"), tmp_path / "thesis"
    thesis.mkdir()
    with closing(sqlite3.connect(tmp_path / "a" / "mlflow.db")) as store, store:
        place = thesis.as_uri()
        store.execute("UPDATE runs SET artifact_uri = ? WHERE run_uuid = ?", (place, run))
    delete_runs(tmp_path / "a")
    assert thesis.exists() and f"{thesis} was not deleted" in caplog.text
