"""The MLflow mirror, against real stores: SQLite files, and on request a server and PostgreSQL."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import pytest
from browser import free_port, mlflow_server

from cse_platform.errors import StoreError
from cse_platform.tracking.events import (
    Event,
    SweepFinished,
    SweepStarted,
    TrialFinished,
    TrialPoint,
    TrialReused,
    TrialStarted,
)
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.mlflow.limits import clean_name, text
from cse_platform.tracking.mlflow.mirror import MLflowMirror
from cse_platform.tracking.recorder import Recorder

BEGIN = datetime(2026, 1, 2, tzinfo=UTC)
JOURNAL = "a-journal"
HASH = "3f2a91bc" + "0" * 56
DEV = {"checkpoint": "stsb", "search": "stsb", "identity": "d1", "source": "builtin"}
CONFIGURATION = {"learning_rate": 3e-5, "rank_loss": "listnet", "teacher_weights": [0.5, 0.5]}


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def sweep_started(second: float = 0, sweep: str = "s1", **fields: Any) -> SweepStarted:
    provenance = {"git_commit": "c0ffee", "git_dirty": "true", "host": "lab"}
    given = {"spec": {"sweep": sweep, "corpus": "wiki1m"}, "provenance": provenance, **fields}
    return SweepStarted(time=after(second), sweep=sweep, method="rankcse", backbone="mini", **given)


def trial_started(second: float, trial: str = "t0", **fields: Any) -> TrialStarted:
    given: dict[str, Any] = {
        "sweep": "s1",
        "number": int(trial[1:]),
        "role": "search",
        "search_number": 0,
        "seed": 42,
        "values": CONFIGURATION,
        **fields,
    }
    return TrialStarted(
        time=after(second),
        trial=trial,
        method="rankcse",
        revision=1,
        backbone="mini",
        configuration=HASH,
        searched=("learning_rate",),
        dev={**DEV, "corpus": "wiki1m"},
        **given,
    )


def point(second: float, step: int, value: float, trial: str = "t0", **more: float) -> TrialPoint:
    metrics = {"dev/stsb_spearman": value, **more}
    return TrialPoint(
        time=after(second), sweep="s1", trial=trial, step=step, value=value, metrics=metrics
    )


def finished(second: float, trial: str = "t0", **fields: Any) -> TrialFinished:
    given: dict[str, Any] = {
        "state": "COMPLETE",
        "best_step": 10,
        "best_value": 0.75,
        "best_metrics": {"dev/stsb_spearman": 0.75, "train/loss": 1.5},
        "wall_seconds": 12.5,
        "provenance": {"cpu": "a CPU"},
        **fields,
    }
    return TrialFinished(time=after(second), sweep="s1", trial=trial, **given)


def sweep_finished(second: float, state: str = "COMPLETE") -> SweepFinished:
    return SweepFinished.model_validate({"time": after(second), "sweep": "s1", "state": state})


HISTORY = [
    sweep_started(0),
    trial_started(1),
    point(2, 0, 0.5),
    point(3, 10, 0.75, **{"train/loss": 1.5}),
    trial_started(3.5, "t1"),
    finished(4),
    point(5, 0, 0.5, "t1"),
    finished(6, "t1", state="PRUNED", best_step=0, best_metrics={"dev/stsb_spearman": 0.5}),
    trial_started(7, "t2"),
    point(7.2, 0, 0.25, "t2"),
    trial_started(7.4, "t2", resumed_from=0),
    point(7.6, 10, 0.3, "t2"),
    sweep_finished(8, "INTERRUPTED"),
    sweep_started(10),
    trial_started(11, "t2"),
    point(12, 0, 0.25, "t2"),
    trial_started(13, "t2", resumed_from=0),
    finished(14, "t2", state="FAIL", best_step=None, best_metrics={}, error="the loss is NaN"),
    sweep_finished(15),
]


def numbered(events: Sequence[Event]) -> list[tuple[int, Event]]:
    return [(100 * (place + 1), event) for place, event in enumerate(events)]


def client_of(uri: str) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=uri)


def runs_in(uri: str) -> dict[str, Any]:
    """Every run that is not deleted, by name."""
    client = client_of(uri)
    experiment = client.get_experiment_by_name("cse").experiment_id
    runs = client.search_runs([experiment])
    by_name = {run.info.run_name: run for run in runs}
    assert len(by_name) == len(runs), "two runs with one name"
    return by_name


def contents(uri: str) -> dict[str, Any]:
    """All that a user can see, without MLflow's own random ids."""
    client, runs = client_of(uri), runs_in(uri)
    names = {run.info.run_id: name for name, run in runs.items()}
    return {
        name: {
            "times": (run.info.start_time, run.info.end_time, run.info.status),
            "params": run.data.params,
            "tags": {k: names.get(v, v) for k, v in run.data.tags.items()},
            "curves": {
                metric: sorted(
                    (point.step, point.timestamp, point.value)
                    for point in client.get_metric_history(run.info.run_id, metric)
                )
                for metric in run.data.metrics
            },
        }
        for name, run in runs.items()
    }


@pytest.fixture
def new_store(empty_mlflow: Callable[[Path], str], tmp_path: Path) -> Callable[[str], str]:
    return lambda name: empty_mlflow(tmp_path / name)


@pytest.fixture(scope="session")
def undisturbed(
    empty_mlflow: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What stands in a store that got each event as it happened."""
    uri = empty_mlflow(tmp_path_factory.mktemp("undisturbed") / "mlflow.db")
    mirror = MLflowMirror(uri)
    for entry in numbered(HISTORY):
        mirror.apply(JOURNAL, [entry])
    return contents(uri)


@pytest.fixture
def uri(new_store: Callable[[str], str]) -> str:
    return new_store("mlflow.db")


def test_a_sweep_is_a_parent_and_its_trials_are_children(uri: str) -> None:
    MLflowMirror(uri).apply(JOURNAL, numbered(HISTORY))

    seen = contents(uri)
    assert set(seen) == {"s1", *(f"rankcse 3f2a91bc seed 42 (#{number})" for number in range(3))}
    trial = seen["rankcse 3f2a91bc seed 42 (#0)"]
    start = int(BEGIN.timestamp() * 1000)
    assert trial["times"] == (start + 1000, start + 4000, "FINISHED")
    assert trial["params"] == {
        "learning_rate": "3e-05",
        "rank_loss": "listnet",
        "teacher_weights": "[0.5,0.5]",
        "seed": "42",
    }
    assert trial["curves"] == {
        "dev/stsb_spearman": [(0, start + 2000, 0.5), (10, start + 3000, 0.75)],
        "train/loss": [(10, start + 3000, 1.5)],
        "best/stsb_spearman": [(10, start + 4000, 0.75)],
        "best/step": [(10, start + 4000, 10.0)],
        "perf/wall_seconds": [(10, start + 4000, 12.5)],
    }
    expected = {
        "mlflow.parentRunId": "s1",
        "sweep": "s1",
        "method": "rankcse",
        "backbone": "mini",
        "corpus": "wiki1m",
        "seed": "42",
        "configuration": HASH,
        "trial": "t0",
        "role": "search",
        "state": "COMPLETE",
        "git_commit": "c0ffee",
        "git_dirty": "true",
        "dev_identity": "d1",
        "dev_source": "builtin",
        "env.cpu": "a CPU",
    }
    assert expected.items() <= trial["tags"].items()


def test_the_sweep_s_run_holds_its_file_without_passwords(uri: str) -> None:
    spec = {"stores": {"search": "postgresql://user:secret@lab/s"}, "trials": [1, "a:b@c"]}
    MLflowMirror(uri).apply(JOURNAL, numbered([sweep_started(spec=spec)]))
    tags = runs_in(uri)["s1"].data.tags
    assert json.loads(tags["spec"]) == {
        "stores": {"search": "postgresql://user:***@lab/s"},
        "trials": [1, "a:***@c"],
    }
    assert tags["mlflow.source.git.commit"] == tags["git_commit"] == "c0ffee"
    assert tags["env.host"] == "lab"


def test_states_and_errors_are_told(uri: str) -> None:
    MLflowMirror(uri).apply(JOURNAL, numbered(HISTORY))

    seen = {name: run["times"][2] for name, run in contents(uri).items()}
    assert seen == {
        "s1": "FINISHED",
        "rankcse 3f2a91bc seed 42 (#0)": "FINISHED",
        "rankcse 3f2a91bc seed 42 (#1)": "KILLED",
        "rankcse 3f2a91bc seed 42 (#2)": "FAILED",
    }
    assert runs_in(uri)["rankcse 3f2a91bc seed 42 (#2)"].data.tags["error"] == "the loss is NaN"


@pytest.mark.parametrize("cut", range(0, len(HISTORY), 3))
def test_after_a_crash_anywhere_a_replay_adds_and_doubles_nothing(
    cut: int, uri: str, undisturbed: dict[str, Any]
) -> None:
    # The position was lost, so that another process begins again at 0 ...
    MLflowMirror(uri).apply("lost", numbered(HISTORY[:cut]))
    MLflowMirror(uri).apply(JOURNAL, numbered(HISTORY))
    # ... or was not moved after the last batch, so that another process applies that again.
    MLflowMirror(uri).apply(JOURNAL, numbered(HISTORY)[cut:])
    assert contents(uri) == undisturbed


def test_positions_are_kept_by_journal_and_by_store(
    uri: str, new_store: Callable[[str], str]
) -> None:
    mirror = MLflowMirror(uri)
    assert mirror.position(JOURNAL) == 0
    mirror.apply(JOURNAL, numbered(HISTORY[:3]))
    assert MLflowMirror(uri).position(JOURNAL) == 300
    assert mirror.position("another") == 0
    assert MLflowMirror(new_store("another.db")).position(JOURNAL) == 0


def test_it_follows_a_journal(uri: str, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl") as journal:
        mirror = MLflowMirror(uri)
        recorder = Recorder(journal, [mirror])
        for event in HISTORY:
            recorder.record(event)
        (health,) = recorder.close(timeout=60)
        assert (health.behind, health.error) == (0, None)
        assert mirror.position(journal.id) == journal.end
    assert len(contents(uri)) == 4


def test_a_trial_that_starts_anew_leaves_no_old_points(uri: str) -> None:
    MLflowMirror(uri).apply(
        JOURNAL,
        numbered([sweep_started(), trial_started(1), point(2, 0, 0.5), point(3, 10, 0.6)])
        + numbered([trial_started(4), point(5, 0, 0.5)]),
    )
    trial = contents(uri)["rankcse 3f2a91bc seed 42 (#0)"]
    assert [step for step, _, _ in trial["curves"]["dev/stsb_spearman"]] == [0]
    assert trial["times"][2] == "RUNNING"


def test_a_trial_that_resumes_keeps_its_points(uri: str) -> None:
    events = [
        *(sweep_started(), trial_started(1), point(2, 0, 0.5), point(3, 10, 0.75)),
        finished(4, state="FAIL", error="worker died"),
        *(trial_started(5, resumed_from=10), point(6, 20, 0.7)),
    ]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    trial = contents(uri)["rankcse 3f2a91bc seed 42 (#0)"]
    assert [step for step, _, _ in trial["curves"]["dev/stsb_spearman"]] == [0, 10, 20]
    assert trial["times"][2] == trial["tags"]["state"] == "RUNNING"
    assert trial["tags"]["error"] == ""


def test_an_interrupted_sweep_leaves_nothing_running(uri: str) -> None:
    events = [sweep_started(), trial_started(1), point(2, 0, 0.5), sweep_finished(3, "INTERRUPTED")]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    assert {run.info.status for run in runs_in(uri).values()} == {"KILLED"}


def test_a_completed_trial_that_is_started_again_stays_as_it_is(uri: str) -> None:
    mirror = MLflowMirror(uri)
    mirror.apply(JOURNAL, numbered(HISTORY))
    before = contents(uri)
    mirror.apply(JOURNAL, numbered([trial_started(20), point(21, 0, 0.1)]))
    assert contents(uri) == before


def test_a_reused_trial_is_a_child_of_the_other_sweep(uri: str) -> None:
    reused = TrialReused(
        time=after(30),
        sweep="s2",
        trial="t0",
        number=5,
        role="search",
        search_number=5,
        seed=42,
        configuration=HASH,
        values=CONFIGURATION,
        searched=("learning_rate",),
        curve={0: 0.5, 10: 0.75},
        best_step=10,
        best_value=0.75,
        model="/models/t0",
    )
    events = [*HISTORY, sweep_started(29, sweep="s2"), reused]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    MLflowMirror(uri).apply(JOURNAL, numbered(events))

    child, original = (contents(uri)[f"rankcse 3f2a91bc seed 42 (#{n})"] for n in (5, 0))
    assert child["tags"]["mlflow.parentRunId"] == "s2"
    assert child["tags"]["reused"] == "true"
    assert child["times"][2] == "FINISHED"
    assert child["params"] == original["params"]
    for metric in ("dev/stsb_spearman", "best/stsb_spearman", "best/step"):
        values = [(step, value) for step, _, value in child["curves"][metric]]
        assert values == [(step, value) for step, _, value in original["curves"][metric]]


@pytest.mark.parametrize("name", ["rankcse 3f2a91bc seed 42 (#0)", "s1"])
def test_a_run_that_a_user_deleted_stays_deleted(name: str, uri: str) -> None:
    mirror = MLflowMirror(uri)
    mirror.apply(JOURNAL, numbered(HISTORY[:3]))
    client_of(uri).delete_run(runs_in(uri)[name].info.run_id)

    with pytest.raises(StoreError, match="must be in the 'active' state"):
        mirror.apply(JOURNAL, numbered(HISTORY)[3:])  # it learns of it here
    mirror.apply(JOURNAL, numbered(HISTORY)[3:])
    mirror.apply(JOURNAL, numbered(HISTORY))
    assert name not in runs_in(uri)
    assert mirror.position(JOURNAL) == 100 * len(HISTORY)


def test_a_view_of_all_trials_is_offered_once(uri: str) -> None:
    tag, client = "mlflow.sharedViewState.cse", client_of(uri)

    def tags() -> dict[str, str]:
        return dict(client.get_experiment_by_name("cse").tags)

    MLflowMirror(uri).apply(JOURNAL, numbered([sweep_started()]))
    assert json.loads(tags()[tag])["name"] == "Configurations, seeds averaged"
    client.delete_experiment_tag(client.get_experiment_by_name("cse").experiment_id, tag)
    MLflowMirror(uri).apply(JOURNAL, numbered([sweep_started(9, "s2")]))
    assert tag not in tags()


def test_values_that_mlflow_would_refuse_are_fitted(uri: str) -> None:
    odd = {"train/loss@5": nan, "../up": inf, "a//b": -inf, "x" * 300: 1.0}
    values = {"prompt": "p" * 7000, "empty": "", "weights": {"b": 1, "a": [True, None]}}
    values |= {f"setting_{number}": number for number in range(150)}
    events = [
        sweep_started(spec={"note": "n" * 9000}),
        trial_started(1, values=values),
        point(2, 0, nan, **odd),
        finished(3, state="FAIL", error="e" * 9000, best_metrics={"dev/stsb_spearman": nan}),
    ]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    MLflowMirror(uri).apply(JOURNAL, numbered(events))

    data = runs_in(uri)["rankcse 3f2a91bc seed 42 (#0)"].data
    assert data.params["prompt"] == "p" * 5999 + "…"
    assert data.params["weights"] == '{"a":[true,null],"b":1}'
    assert len(data.params) == 154
    assert len(data.tags["error"]) == 8000
    assert isnan(data.metrics["train/loss_5"])
    assert {"up", "a/b", "x" * 250} <= set(data.metrics)
    assert len(contents(uri)["rankcse 3f2a91bc seed 42 (#0)"]["curves"]["dev/stsb_spearman"]) == 1


@pytest.mark.parametrize(
    ("name", "clean"),
    [("dev/stsb_spearman", "dev/stsb_spearman"), ("", "_"), ("..", "_"), ("//ä b", "_ b")],
)
def test_names(name: str, clean: str) -> None:
    assert clean_name(name) == clean


def test_text_at_the_limit_is_whole() -> None:
    assert text("abc", limit=3) == "abc"
    assert text("abcd", limit=3) == "ab…"
    assert text("a\0b", limit=3) == "ab"


def test_more_points_than_a_batch_takes(uri: str) -> None:
    more = {f"train/loss_{number}": float(number) for number in range(600)}
    events = [sweep_started(), trial_started(1), *(point(2 + n, n, 0.5, **more) for n in range(4))]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    curves = contents(uri)["rankcse 3f2a91bc seed 42 (#0)"]["curves"]
    assert sum(map(len, curves.values())) == 4 * 601


def test_a_deleted_experiment_says_how_to_restore_it(uri: str) -> None:
    MLflowMirror(uri).position(JOURNAL)  # makes the experiment
    client = client_of(uri)
    client.delete_experiment(client.get_experiment_by_name("cse").experiment_id)
    with pytest.raises(StoreError, match=r"'cse' .* was deleted; .* restore --experiment-id 1"):
        MLflowMirror(uri).position(JOURNAL)


@pytest.mark.parametrize("uri", ["htp://user:secret@lab:5000", "./mlruns", ""])
def test_what_is_no_store_is_refused_at_once(uri: str) -> None:
    with pytest.raises(StoreError, match=r"is no MLflow store; give http://HOST:PORT") as refusal:
        MLflowMirror(uri)
    assert "secret" not in str(refusal.value)


def test_a_store_out_of_reach_is_one_sentence_without_password(tmp_path: Path) -> None:
    with socket.socket() as bound:  # nobody listens here
        bound.bind(("127.0.0.1", 0))
        place = f"user:secret@127.0.0.1:{bound.getsockname()[1]}"
        for uri in (f"http://{place}", f"postgresql+psycopg://{place}/mlflow"):
            with pytest.raises(StoreError, match=r"refuses or does not answer") as refusal:
                MLflowMirror(uri).position(JOURNAL)
            assert "secret" not in str(refusal.value)
            assert "\n" not in str(refusal.value)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="refuses or does not answer"):
        MLflowMirror(f"sqlite:///{tmp_path}/file/mlflow.db").position(JOURNAL)


def test_artifacts_of_a_database_lie_where_they_should(uri: str, tmp_path: Path) -> None:
    MLflowMirror(uri, experiment="other", artifacts=tmp_path / "artifacts").position(JOURNAL)
    location = client_of(uri).get_experiment_by_name("other").artifact_location
    assert location == str(tmp_path / "artifacts")


OPEN = """
import sys
from cse_platform.tracking.mlflow.mirror import MLflowMirror
assert "mlflow" not in sys.modules, "imported before it is needed"
mirror = MLflowMirror(sys.argv[1])
sys.stdin.readline()
print(mirror.position("a-journal"))
"""


def test_two_processes_may_make_one_new_store_and_print_nothing(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, uri],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=120) for process in both] == [("0\n", ""), ("0\n", "")]
    assert {path.name for path in tmp_path.iterdir()} == {"new"}


def test_what_the_user_set_stays(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    MLflowMirror(uri).position(JOURNAL)
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77"
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"


@pytest.mark.slow
def test_a_server_that_dies_and_comes_back_is_caught_up_with(
    new_store: Callable[[str], str], tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    new_store("server.db")
    port, entries, store = free_port(), numbered(HISTORY), f"sqlite:///{tmp_path / 'server.db'}"
    uri = f"http://127.0.0.1:{port}"
    mirror = MLflowMirror(uri)

    with mlflow_server(store, folder=tmp_path, port=port):
        mirror.apply(JOURNAL, entries[:4])
    for _ in range(2):
        with pytest.raises(StoreError, match="refuses or does not answer"):
            mirror.apply(JOURNAL, entries[4:])
    with mlflow_server(store, folder=tmp_path, port=port):
        done = mirror.position(JOURNAL)
        assert done == 400
        mirror.apply(JOURNAL, [entry for entry in entries if entry[0] > done])
        assert contents(uri) == undisturbed


@pytest.mark.postgres
def test_postgresql_holds_the_same(uri: str) -> None:
    database = os.environ["CSE_TEST_POSTGRES"]
    import sqlalchemy

    name = f"mlflow_{os.getpid()}"
    engine = sqlalchemy.create_engine(database, isolation_level="AUTOCOMMIT")
    url = engine.url.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
        try:
            for store in (uri, url, url):
                MLflowMirror(store).apply(JOURNAL, numbered(HISTORY))
            assert contents(url) == contents(uri)
        finally:
            connection.execute(sqlalchemy.text(f"DROP DATABASE {name} WITH (FORCE)"))
