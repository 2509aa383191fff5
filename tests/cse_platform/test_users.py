import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from doc_blocks import blocks
from ruamel.yaml import YAML
from sqlalchemy import make_url, select
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life

from cse_platform.control.annotations import annotate
from cse_platform.control.requests import send_request
from cse_platform.errors import StoreError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.stores.sql.lease import Lease
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import AnnotationRecord, SweepRequestRecord
from cse_platform.tracking.journal import Journal

pytestmark = pytest.mark.postgres

PAGE = Path(__file__).parents[2] / "docs" / "administration.md"
PASSWORD = "a-password"
DENIED = "permission denied|must be owner"


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


def test_who_wrote_is_the_login(shared, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOGNAME", "somebody-else")
    driver = url_as(shared, "ann")
    with open_store(driver) as board:
        apply_events(board, [sweep_started(), *trial_life(0, {1: 0.5}, state="FAIL")])
    annotate(driver, tmp_path, "first", note="odd")
    send_request(driver, "first", "retry")
    with open_store(driver) as board, board.session() as session:
        assert session.scalars(select(AnnotationRecord.who)).all() == ["ann"]
        [request] = session.scalars(select(SweepRequestRecord.event)).all()
        assert request["who"] == "ann"
    reader = url_as(shared, "rae")
    with pytest.raises(StoreError):
        send_request(reader, "first", "retry")
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

    from cse_platform.stores.optuna.sink import open_search_store

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
