import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from commands import invoke
from doc_blocks import blocks
from ruamel.yaml import YAML
from sqlalchemy import make_url, select
from stored_trials import apply_events, write_journal
from sweep_events import sweep_started, trial_life

from cse_platform.cli.leaderboard import main as leaderboard
from cse_platform.cli.sweep import main as sweep
from cse_platform.control.annotations import annotate
from cse_platform.control.requests import send_request
from cse_platform.errors import StoreError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.stores.rebuild import rebuild
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import AnnotationRecord, SweepRequestRecord
from cse_platform.tracking.journal import Journal

pytestmark = pytest.mark.postgres

PAGE = Path(__file__).parents[2] / "docs" / "administration.md"
PASSWORD = "a-password"
DENIED = "permission denied|must be owner"
SWEEP = {
    "sweep": "tiny", "method": "simcse", "backbone": "mini", "corpus": "builtin",
    "data": "builtin", "space": {"temperature": [0.05, 0.1]}, "search": {"trials": 1},
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[str]:
    """A server with the databases and the roles that the page makes, and none at the end."""
    admin = os.environ["CSE_TEST_POSTGRES"]
    [lines] = [block.body for block in blocks(PAGE) if "CREATE ROLE" in block.body]
    place = make_url(admin).set(drivername="postgresql", database="")
    address = place.render_as_string(hide_password=False)
    lines = lines.replace("postgresql://postgres@db.lab/", address).replace("…", PASSWORD)
    try:
        subprocess.run(["bash", "-euc", lines], check=True, capture_output=True)
        yield admin
    finally:
        with as_admin(admin) as connection:
            for database in re.findall(r"CREATE DATABASE (\w+)", lines):
                connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            for role in reversed(re.findall(r"CREATE ROLE (\w+)", lines)):
                connection.execute(f"DROP ROLE IF EXISTS {role}")


def as_admin(url: str) -> psycopg.Connection[Any]:
    place = make_url(url)
    return psycopg.connect(
        host=place.host, port=place.port, user=place.username, password=place.password,
        dbname=place.database, autocommit=True,
    )  # fmt: skip


def url_as(admin: str, user: str, database: str = "leaderboard") -> str:
    place = make_url(admin).set(username=user, password=PASSWORD, database=database)
    return place.render_as_string(hide_password=False)


@pytest.fixture
def shared(server) -> str:
    open_store(url_as(server, "cse_owner")).close()
    return server


def test_a_driver_writes_and_a_reader_not(shared, tmp_path) -> None:
    driver, reader = url_as(shared, "ann"), url_as(shared, "rae")
    events = [sweep_started(), *trial_life(0, {1: 0.5})]
    with (
        open_store(driver) as board,
        Journal(tmp_path / "journal") as journal,
        Lease(board, "first", journal),
    ):
        apply_events(board, events)
    with open_leaderboard(reader) as board:
        assert [row.n for row in board.rows()] == [1]
    with open_store(reader) as board, pytest.raises(StoreError, match="permission denied"):
        apply_events(board, [sweep_started("second")], journal="another")
    for url in (driver, reader):
        for statement in (
            "DROP TABLE trials",
            "ALTER TABLE trials ADD COLUMN more TEXT",
            "TRUNCATE scores",
            "CREATE TABLE more (id INTEGER)",
        ):
            with as_admin(url) as connection, pytest.raises(psycopg.Error, match=DENIED):
                connection.execute(statement)


def test_what_a_login_must_not_do_is_refused_before_it_begins(
    server, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(json.dumps(SWEEP))
    Path("runs.csv").write_text(
        "run,method,backbone,seed,state,dev.stsb\na,x,mini,1,complete,0.5\n"
    )
    as_driver, as_reader = ({"CSE_STORE": url_as(server, name)} for name in ("ann", "rae"))
    dry_run, imports = ["sweep.yaml", "--dry-run"], ["import", "runs.csv", "--sweep", "lab"]
    commands = (sweep, dry_run), (sweep, dry_run[:1]), (leaderboard, imports)
    for main, words in commands:
        told = invoke(main, *words, env=as_driver, code=1).stderr
        assert "there is no leaderboard yet, and this login may not create tables; let the" in told
        assert "docs/administration.md" in told and "CREATE TABLE" not in told
    rebuilds = [["rebuild", "--only", "leaderboard", *more] for more in ([], ["--dry-run"])]
    refusal = "rebuild needs the owner of the tables, cse_owner, with CREATE on the database; this"
    write_journal(Path("runs/sweeps/first/journal.jsonl"), [sweep_started()])

    def refuse_rebuilds() -> None:
        for words in rebuilds:
            told = invoke(leaderboard, *words, env=as_driver, code=1).stderr
            assert refusal in told and "login is ann: docs/administration.md" in told

    refuse_rebuilds()
    as_owner = {"CSE_STORE": url_as(server, "cse_owner")}
    for words in rebuilds:
        invoke(leaderboard, *words, env=as_owner)
    refuse_rebuilds()
    assert "tiny: simcse on mini" in invoke(sweep, *dry_run, env=as_driver).output
    for main, words in commands:
        told = invoke(main, *words, env=as_reader, code=1).stderr
        assert re.search(r"denied for table \w+; use a login that may do it: docs/", told)


def test_who_may_make_tables_and_schemas_rebuilds_an_empty_database(server, tmp_path) -> None:
    write_journal(tmp_path / "sweeps" / "first" / "journal.jsonl", [sweep_started()])
    owner, driver = url_as(server, "cse_owner"), url_as(server, "ann")
    with as_admin(owner) as connection:
        connection.execute("GRANT CREATE ON DATABASE leaderboard TO ann")
        connection.execute("GRANT CREATE ON SCHEMA public TO ann")
    for _ in range(2):
        assert rebuild(driver, [tmp_path]).after["sweeps"] == 1
    with pytest.raises(StoreError, match="rebuild needs the owner of the tables, ann, with"):
        rebuild(owner, [tmp_path])


def test_who_wrote_is_the_login(shared, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOGNAME", "somebody-else")
    driver = url_as(shared, "ann")
    with open_store(driver) as board:
        apply_events(board, [sweep_started(), *trial_life(0, {1: 0.5}, state="FAIL")])
    annotate(driver, tmp_path, "first", note="odd")
    reader = url_as(shared, "rae")
    with pytest.raises(StoreError):
        send_request(reader, "first", "retry")
    send_request(driver, "first", "retry")
    with open_store(driver) as board, board.session() as session:
        assert session.scalars(select(AnnotationRecord.who)).all() == ["ann"]
        [request] = session.scalars(select(SweepRequestRecord.event)).all()
        assert request["who"] == "ann"
    with pytest.raises(StoreError, match="permission denied"):
        annotate(reader, tmp_path, "first", star=True)
    annotate(driver, tmp_path, "first", note="even")  # of the reader's star nothing is kept
    with open_store(driver) as board, board.session() as session:
        assert session.scalars(select(AnnotationRecord.who)).all() == ["ann"]


def test_logins_of_the_compose_file_own_their_databases_and_no_more() -> None:
    server = os.environ["CSE_TEST_POSTGRES"]
    file = Path(__file__).parents[2] / "platform" / "deploy" / "compose.yaml"
    made = YAML(typ="safe").load(file)["configs"]["databases"]["content"]
    for name in ("LAB_PASSWORD", "MLFLOW_PASSWORD"):
        made = made.replace(f"${{{name}:?}}", PASSWORD)
    databases = {"leaderboard": "lab", "search": "lab", "mlflow": "mlflow"}
    with as_admin(server) as connection:
        try:
            for statement in made.split(";")[:-1]:
                connection.execute(statement)
            rights = "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles"
            may = connection.execute(f"{rights} WHERE rolname IN ('lab', 'mlflow')").fetchall()
            assert may == [(False,), (False,)]
            place = make_url(url_as(server, "lab"))
            for database, owner in databases.items():
                url = place.set(database=database).render_as_string(hide_password=False)
                with as_admin(url) as one:
                    if owner == "lab":
                        one.execute("CREATE TABLE made (id INTEGER)")
                    else:
                        with pytest.raises(psycopg.Error, match="permission denied"):
                            one.execute("CREATE TABLE made (id INTEGER)")
        finally:
            for database in databases:
                connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
            for login in sorted({*databases.values()}):
                connection.execute(f"DROP ROLE IF EXISTS {login}")


def test_a_search_store_is_shared_alike(server) -> None:
    from optuna import create_study, get_all_study_summaries, load_study
    from optuna.exceptions import StorageInternalError

    from cse_platform.stores.optuna.sink import open_search_store, open_stored_study

    with (
        pytest.raises(
            StoreError, match=r"schema public; use a login that may do it: docs/admin\S+"
        ),
        open_stored_study(url_as(server, "ann", "search"), "one", ()),
    ):
        pass
    open_search_store(url_as(server, "cse_owner", "search")).engine.dispose()
    storage = open_search_store(url_as(server, "ann", "search"))
    study = create_study(storage=storage, study_name="one")
    study.tell(study.ask(), 0.5)
    reading = open_search_store(url_as(server, "rae", "search"))
    assert load_study(storage=reading, study_name="one").best_value == 0.5
    with pytest.raises(StorageInternalError):
        create_study(storage=reading, study_name="two")
    assert [one.study_name for one in get_all_study_summaries(storage)] == ["one"]
    for opened in (storage, reading):
        opened.remove_session()
        opened.engine.dispose()
