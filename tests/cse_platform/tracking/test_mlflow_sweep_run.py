import base64
import json
import shutil
import sqlite3
import zlib
from contextlib import closing
from math import isnan
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from mlflow_history import (
    HASH,
    JOURNAL,
    client_of,
    finished,
    forget_position,
    numbered,
    point,
    runs_in,
    sweep_finished,
    sweep_started,
    trial_started,
)

from cse_platform.errors import NotFoundError
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.mlflow.run_writer import VIEW_TAG
from cse_platform.stores.mlflow.store import open_experiment
from cse_platform.stores.mlflow.sweep_run import find_comparison, find_mirrored_sweep
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


def test_a_link_compares_the_runs_of_trials(uri) -> None:
    mirrored(uri, sweep_started(spec=SPEC), *trial(0, 0.5), *trial(1, 0.9), *trial(2, 0.7))
    link = find_comparison(uri, experiments=["none", "cse"], trials=["t2", "other", "t0"])
    compared = json.loads(parse_qs(link.partition("?")[2])["runs"][0])
    assert [client_of(uri).get_run(run).data.tags["trial"] for run in compared] == ["t2", "t0"]
    with pytest.raises(NotFoundError, match="has none of these trials"):
        find_comparison(uri, experiments=["none"], trials=["t2"])


def curve(uri: str, metric: str = BEST) -> list[tuple[int, float]]:
    """Of the sweep's run."""
    history = client_of(uri).get_metric_history(runs_in(uri)["s1"].info.run_id, metric)
    return sorted((one.step, one.value) for one in history)


def test_the_sweep_s_run_has_the_best_so_far_and_the_leader(uri) -> None:
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


def test_what_an_earlier_leader_alone_has_is_withdrawn(uri) -> None:
    *life, end = trial(0, 0.5)
    values = end.best_metrics | {"dev/größe (1)": 0.4}
    events = [sweep_started(spec=SPEC), *life, end.model_copy(update={"best_metrics": values})]
    mirrored(uri, *events, *trial(1, 0.6))
    later = [*events, *trial(1, 0.6), *life, *trial(2, 0.7)]
    mirrored(uri, *later, start=len(events) + 3)
    known = runs_in(uri)["s1"].data.metrics
    [alone] = [name for name in known if name not in (BEST, "best/uniformity", "best/step")]
    assert alone.startswith("best/gr") and isnan(known[alone])
    assert (known[BEST], known["best/uniformity"]) == (0.7, -0.7)
    assert [step for step, value in curve(uri, alone) if isnan(value)][-1] > 1


def test_at_its_end_the_sweep_s_run_has_the_mean_of_the_seeds_that_did_not_choose(uri) -> None:
    """`b` has the higher mean over two further seeds, `a` the higher value in the search."""
    found = {"a": (0.9, 0.5, 0.6), "b": (0.8, 0.7, 0.74), "c": (0.95, 0.94)}
    events, number = list[Event](), 0
    for configuration, (chose, *further) in found.items():
        for seed, value in enumerate((chose, *further)):
            start, *rest = trial(number, value)
            role = "confirm" if seed else "search"
            of = {"configuration": configuration, "seed": seed, "role": role}
            events += [start.model_copy(update=of), *rest]
            number += 1
    for _ in range(2):  # told again, it is as before
        MLflowMirror(uri).apply(
            JOURNAL, numbered([sweep_started(spec=SPEC), *events, sweep_finished(500)])
        )
        forget_position(uri)
    run = runs_in(uri)["s1"].data
    assert run.metrics["confirmed/stsb_spearman"] == pytest.approx(0.72)
    assert run.metrics["confirmed/stsb_spearman_std"] == pytest.approx(0.04 / 2**0.5)
    assert run.metrics["confirmed/seeds"] == 2
    assert run.metrics["confirmed/chosen_by"] == 0.8
    assert run.tags["confirmed_configuration"] == "b"
    assert run.metrics[BEST] == 0.95


def test_where_nothing_chose_all_seeds_count(uri) -> None:
    events = list[Event]()
    for number, (seed, role) in enumerate(((42, "search"), (0, "confirm"), (1, "confirm"))):
        start, *rest = trial(number, 0.5 + number / 10)
        events += [start.model_copy(update={"seed": seed, "role": role}), *rest]
    start, *rest = trial(3, 0.9, state="FAIL")  # another configuration, without a value
    events += [start.model_copy(update={"configuration": "b"}), *rest]
    mirrored(uri, sweep_started(spec=SPEC), *events, sweep_finished(500))
    known = runs_in(uri)["s1"].data.metrics
    assert known["confirmed/stsb_spearman"] == pytest.approx(0.6)
    assert known["confirmed/seeds"] == 3 and "confirmed/chosen_by" not in known


def test_an_estimate_is_withdrawn_once_the_configuration_is_one_of_several(uri) -> None:
    """As in a loop of recorded runs: each is of the search, and the sweep ends after each."""
    events = list[Event]()
    for number, (configuration, seed) in enumerate((("a", 0), ("a", 1), ("b", 0), ("b", 1))):
        start, *rest = trial(number, 0.5 + number / 10)
        of = {"configuration": configuration, "seed": seed}
        ended = sweep_finished(100 * number + 50)
        events += [sweep_started(spec=SPEC), start.model_copy(update=of), *rest, ended]
    mirrored(uri, *events[:10])
    known = runs_in(uri)["s1"].data
    assert known.metrics["confirmed/stsb_spearman"] == pytest.approx(0.55)
    mirrored(uri, *events, start=10)
    known = runs_in(uri)["s1"].data
    for name in ("stsb_spearman", "stsb_spearman_std", "seeds"):
        assert isnan(known.metrics[f"confirmed/{name}"])
    assert "confirmed_configuration" not in known.tags


def test_only_settings_that_cannot_change_are_parameters_of_the_sweep_s_run(uri) -> None:
    mirrored(uri, sweep_started(spec=SPEC))
    run = runs_in(uri)["s1"].data
    assert run.params == {
        "search.sampler": "tpe", "search.seed": "7", "epochs": "3", "batch_size": "64",
        "space.learning_rate": '{"high":0.001,"low":1e-05}', "space.tau3": "[0.1]",
    }  # fmt: skip
    assert (run.tags["search.trials"], run.tags["pruner"]) == ("4", '{"kind":"median"}')
    extended = SPEC | {"search": {"sampler": "tpe", "trials": 6, "seed": 7}, "pruner": "none"}
    mirrored(uri, sweep_started(spec=SPEC), sweep_started(9, spec=extended), start=1)
    run = runs_in(uri)["s1"].data
    assert (run.tags["search.trials"], run.tags["pruner"]) == ("6", "none")


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


def test_annotations_are_on_the_runs_that_they_are_about(uri) -> None:
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


@pytest.fixture
def lab(new_store, tmp_path) -> Path:
    """A runs folder whose MLflow has the run of a sweep."""
    runs = tmp_path / "a"
    mirror = MLflowMirror(new_store("a/mlflow.db"), artifacts=runs / "artifacts")
    mirror.apply(JOURNAL, numbered([sweep_started(spec=SPEC)]))
    return runs


def store_of(runs: Path) -> str:
    return f"sqlite:///{runs}/mlflow.db"


def artifacts_of(runs: Path) -> str:
    """Where MLflow says that the artifacts of the sweep's run lie."""
    return str(runs_in(store_of(runs))["s1"].info.artifact_uri)


def test_a_copied_database_has_its_artifacts_beside_it(lab, tmp_path) -> None:
    """MLflow stores whole paths: a copy would write into its original's."""
    copy = tmp_path / "b"
    client, run = client_of(store_of(lab)), runs_in(store_of(lab))["s1"].info.run_id
    client.create_registered_model("best")
    client.create_model_version("best", artifacts_of(lab))
    shutil.copytree(lab, copy)
    open_experiment(store_of(copy), "cse", artifacts=copy / "artifacts")
    assert artifacts_of(copy) == f"file://{copy}/artifacts/{run}/artifacts"
    assert artifacts_of(lab) == f"file://{lab}/artifacts/{run}/artifacts"
    location = client_of(store_of(copy)).get_model_version_download_uri("best", "1")
    assert location == artifacts_of(copy)


def test_nothing_is_deleted_where_a_database_says(lab, tmp_path, hook) -> None:
    """A colleague's mlflow.db can name any folder, address or other run; it is named, no more."""
    thesis, port = tmp_path / "thesis", hook.server.server_port
    client, own = client_of(store_of(lab)), Path(artifacts_of(lab).removeprefix("file://"))
    other = client.create_run(client.get_experiment_by_name("cse").experiment_id).info.run_id
    [run] = (run for run in client.search_runs(["1"], "tags.sweep = 's1'"))
    for folder in (thesis, own):
        folder.mkdir(parents=True)
        (folder / "chapter.tex").touch()
    locations = (
        thesis.as_uri(),
        str(thesis),
        f"runs:/{other}/",
        f"http://127.0.0.1:{port}/artifacts",
        f"mlflow-artifacts://127.0.0.1:{port}/all",
        "s3://private/bucket",
        "models:/best/1",
        "http://[",
        own.as_uri(),
    )
    for number, location in enumerate(locations):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(lab, copy, ignore=shutil.ignore_patterns("artifacts"))
        with closing(sqlite3.connect(copy / "mlflow.db")) as store, store:
            told = "UPDATE runs SET artifact_uri = ? WHERE run_uuid = ?"
            store.execute(told, (location, run.info.run_id))
            store.execute(told, (thesis.as_uri(), other))
        named = {"experiment": "cse", "sweep": "s1", "journal": JOURNAL}
        found = find_mirrored_sweep(store_of(copy), **named)
        assert [name.rstrip("/") in location for name in found.artifacts] == [True], location
        found.delete({JOURNAL})
        assert "s1" not in runs_in(store_of(copy)), location
    assert (thesis / "chapter.tex").exists() and (own / "chapter.tex").exists()
    assert hook.requests == []
    # What names no place at all keeps nobody from deleting.
    for location in (None, b"\xff", 7, "x" * 5000, f"file:///{'x' * 300}", "a\0b"):
        with closing(sqlite3.connect(lab / "mlflow.db")) as store, store:
            store.execute("UPDATE runs SET artifact_uri = ?", (location,))
        found = find_mirrored_sweep(store_of(lab), **named)
        assert (found.artifacts, len(found.runs)) == ({}, 1), location
