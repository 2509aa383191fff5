import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow_history import HISTORY, JOURNAL, client_of, contents, numbered, runs_in
from servers import MlflowServer

from cse_platform.databases import sqlite_file
from cse_platform.errors import StoreError, StoreLostError
from cse_platform.stores.mlflow import store
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.mlflow.store import connect
from cse_platform.tracking.events import Event


def test_a_deleted_experiment_says_how_to_restore_it(uri) -> None:
    MLflowMirror(uri).position(JOURNAL)  # makes the experiment
    client = client_of(uri)
    client.delete_experiment(client.get_experiment_by_name("cse").experiment_id)
    with pytest.raises(StoreError, match=r"'cse' .* was deleted; .* restore --experiment-id 1"):
        MLflowMirror(uri).position(JOURNAL)


def test_an_older_store_is_not_upgraded_and_garbage_says_how_to_make_a_new_one(tmp_path) -> None:
    file = tmp_path / "old.db"
    with closing(sqlite3.connect(file)) as old, old:
        old.execute("CREATE TABLE experiments (experiment_id INTEGER)")
    before = file.read_bytes()
    with pytest.raises(StoreError, match=r"has an older schema, .* `mlflow db upgrade`"):
        MLflowMirror(f"sqlite:///{file}").position(JOURNAL)
    assert file.read_bytes() == before
    file = tmp_path / "mlflow.db"
    file.write_bytes(b"no database" * 999)
    with pytest.raises(StoreLostError, match=r"; `cse-leaderboard rebuild --only mlflow` renames"):
        MLflowMirror(f"sqlite:///{file}").position(JOURNAL)


def test_an_unreachable_or_wrong_store_is_one_sentence_without_password(tmp_path) -> None:
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
    for uri in ("htp://user:secret@lab:5000", "./mlruns", ""):
        with pytest.raises(
            StoreError, match="is not an MLflow store; set CSE_MLFLOW_URI"
        ) as refusal:
            MLflowMirror(uri)
        assert "secret" not in str(refusal.value)


def test_artifacts_of_a_database_lie_where_they_should(uri, tmp_path) -> None:
    folder = tmp_path / "a?b%20#c" / "artifacts"  # MLflow would take it for a part of a URL
    MLflowMirror(uri, experiment="other", artifacts=folder).position(JOURNAL)
    client = client_of(uri)
    run = client.create_run(client.get_experiment_by_name("other").experiment_id).info.run_id
    client.log_text(run, "one", "text.txt")
    assert [file.read_text() for file in folder.glob("*/artifacts/text.txt")] == ["one"]


def test_a_file_lost_while_it_is_open_is_filled_again(empty_mlflow, tmp_path, monkeypatch) -> None:
    from mlflow.tracking import MlflowClient

    made = set()

    def make_tables(tracking_uri: str) -> object:
        """Give a new file tables, as MLflow does, once in a process for each name."""
        if tracking_uri.endswith(".part") and tracking_uri not in made:
            made.add(tracking_uri)
            empty_mlflow(Path(tracking_uri.removeprefix("sqlite:///")))
        return MlflowClient(tracking_uri=tracking_uri)

    monkeypatch.setattr("mlflow.tracking.MlflowClient", make_tables)
    clock = count(time.time(), 2.0)  # MLflow opens a file again after a second
    monkeypatch.setattr("time.time", lambda: next(clock))
    file, entries = tmp_path / "mlflow.db", numbered(HISTORY[:6])
    uri = f"sqlite:///{file}"
    mirror = MLflowMirror(uri)
    mirror.apply(JOURNAL, entries[:5])
    file.unlink()
    catch_up(mirror, entries)
    undisturbed, seen = empty_mlflow(tmp_path / "undisturbed.db"), tmp_path / "seen.db"
    MLflowMirror(undisturbed).apply(JOURNAL, entries)
    shutil.copy(file, seen)
    assert contents(f"sqlite:///{seen}") == contents(undisturbed)


def catch_up(mirror: MLflowMirror, entries: list[tuple[int, Event]]) -> None:
    errors = []
    while len(errors) < 3:
        try:
            done = mirror.position(JOURNAL)
            return mirror.apply(JOURNAL, [entry for entry in entries if entry[0] > done])
        except StoreError as error:
            errors.append(str(error))
    raise AssertionError(errors)


def test_a_store_that_is_replaced_within_a_batch_lacks_nothing(uri, tmp_path, monkeypatch) -> None:
    mirror, file, older = MLflowMirror(uri), tmp_path / "mlflow.db", tmp_path / "older"
    entries = numbered(HISTORY[:4])
    mirror.apply(JOURNAL, entries[:2])
    shutil.copy(file, older)
    mirror.apply(JOURNAL, entries[2:3])
    clock = count(time.time(), 2.0)
    monkeypatch.setattr("time.time", lambda: next(clock))
    assert mirror.position(JOURNAL) == 300
    older.rename(file)
    with pytest.raises(StoreError, match="was replaced"):
        mirror.apply(JOURNAL, entries[3:])
    assert mirror.position(JOURNAL) == 200


def test_another_store_in_its_place_is_begun_anew(uri) -> None:
    mirror = MLflowMirror(uri)
    mirror.position(JOURNAL)
    client = client_of(uri)
    number = client.get_experiment_by_name("cse").experiment_id
    client.rename_experiment(number, "of others")
    catch_up(mirror, numbered(HISTORY[:1]))
    assert not client.search_runs([number])
    assert set(runs_in(uri)) == {"s1"}


def test_a_store_that_appears_while_one_is_made_stays(uri, tmp_path, monkeypatch) -> None:
    client_of(uri).create_experiment("theirs")
    place = tmp_path / "new" / "mlflow.db"

    def appear() -> str:
        with (
            closing(sqlite3.connect(sqlite_file(uri))) as old,
            closing(sqlite3.connect(place)) as new,
        ):
            old.backup(new)
        return "ours"

    monkeypatch.setattr(store, "uuid4", lambda: SimpleNamespace(hex=appear()))
    client = connect(f"sqlite:///{place}")
    assert client.get_experiment_by_name("theirs") is not None
    assert not [*place.parent.glob("*.part")]


OPEN = """
import sys
from cse_platform.stores.mlflow.mirror import MLflowMirror
assert "mlflow" not in sys.modules, "imported before it is needed"
mirror = MLflowMirror(sys.argv[1])
sys.stdin.readline()
print(mirror.position("a-journal"))
"""


def write_half(file: Path, copy: Path, mode: str) -> None:
    """What a writer of a store leaves that is killed in the middle: a copy of all its files."""
    with closing(sqlite3.connect(file, isolation_level=None)) as store:
        store.execute(f"PRAGMA journal_mode = {mode}")
        store.execute("PRAGMA cache_size = 2")  # so that it writes before the end
        store.execute("BEGIN IMMEDIATE")
        store.execute("UPDATE experiments SET name = 'half'")
        store.execute("CREATE TABLE pages AS SELECT randomblob(100000)")
        if mode == "WAL":
            store.execute("COMMIT")
        copy.mkdir()
        for left in file.parent.glob(f"{file.name}*"):
            shutil.copy(left, copy)


def test_a_store_whose_writer_was_killed_opens_at_once_also_after_its_file_was_deleted(
    new_store, empty_mlflow, tmp_path, monkeypatch
) -> None:
    def make_tables(tracking_uri: str) -> object:
        if tracking_uri.endswith(".part"):
            empty_mlflow(Path(tracking_uri.removeprefix("sqlite:///")))
        return object()

    monkeypatch.setattr("mlflow.tracking.MlflowClient", make_tables)
    for mode, end in (("DELETE", "-journal"), ("WAL", "-wal")):
        for deleted in (True, False):
            name, folder = f"{mode}-{deleted}.db", tmp_path / f"{mode}-{deleted}"
            new_store(name)
            write_half(tmp_path / name, folder, mode)
            file = folder / name
            assert (folder / f"{name}{end}").exists()
            if deleted:
                file.unlink()
            connect(f"sqlite:///{file}")
            with closing(sqlite3.connect(file)) as store:
                assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                names = store.execute("SELECT name FROM experiments").fetchall()
            assert names == [("half" if mode == "WAL" and not deleted else "Default",)]


@pytest.mark.slow
def test_two_processes_may_make_one_new_store_and_print_nothing(tmp_path) -> None:
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", OPEN, uri]
    both = [
        subprocess.Popen(command, **pipes, cwd=tmp_path, env=environment, text=True)
        for _ in range(2)
    ]
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=300) for process in both] == [("0\n", ""), ("0\n", "")]
    assert {path.name for path in tmp_path.iterdir()} == {"new"}


def test_mlflow_settings_of_the_user_stay(uri, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "77")
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    MLflowMirror(uri).position(JOURNAL)
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "77"
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"


@pytest.mark.slow
def test_a_server_that_comes_back_is_caught_up(new_store, tmp_path, undisturbed, capsys) -> None:
    entries, server = numbered(HISTORY), MlflowServer(tmp_path, store=new_store("server.db"))
    mirror = MLflowMirror(server.url)
    with server:
        mirror.apply(JOURNAL, entries[:4])
    for _ in range(2):
        with pytest.raises(StoreError, match="refuses or does not answer"):
            mirror.apply(JOURNAL, entries[4:])
    server.start()
    with server:
        done = mirror.position(JOURNAL)
        assert done == 400
        mirror.apply(JOURNAL, [entry for entry in entries if entry[0] > done])
        assert contents(server.url) == undisturbed
    assert capsys.readouterr().out == ""


@pytest.mark.postgres
def test_postgresql_holds_the_same(uri) -> None:
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
