import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from commands import invoke
from sqlalchemy import select, text
from stored_trials import write_journal
from sweep_events import sweep_started

from cse_platform.cli.leaderboard import main
from cse_platform.errors import StoreError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.stores.sql.store import SCHEMA, Store, open_for_reading, open_store
from cse_platform.stores.sql.tables import (
    MachineRecord,
    SchemaRecord,
    SweepRecord,
    SweepStartRecord,
)
from cse_platform.sweep.stores import JOURNAL_FILE
from cse_platform.tracking.journal import Journal

READ = """
import sys
from sqlalchemy import text
from cse_platform.stores.sql.store import open_for_reading, open_store
with open_for_reading(sys.argv[1]) as board, board.session() as session:
    print(session.scalar(text("SELECT count(*) FROM journal_cursors")))
open_store(sys.argv[2]).close()
"""


DENIED = """
import sys
from cse_platform.errors import StoreError
from cse_platform.stores.optuna.sink import open_stored_study
from cse_platform.stores.sql.store import open_for_reading, open_store
from cse_platform.stores.sql.tables import AnnotationRecord

def write(url):
    open_store(url).require_write_access(AnnotationRecord)

def read_studies(url):
    with open_stored_study(url, "small", ()):
        pass

for url in sys.argv[1:]:
    for use in (write, open_for_reading, read_studies):
        try:
            use(url)
            print("done")
        except StoreError as error:
            print(type(error).__name__, error)
"""


def run_without_override(code: str, *words: str) -> list[str]:
    """The lines that code prints for a user who is bound by permissions, as root is not."""
    command = [sys.executable, "-c", code, *words]
    if not os.geteuid():
        if not shutil.which("setpriv"):
            pytest.skip("root heeds no permissions, and there is no setpriv to make it")
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def small(tmp_path, empty_leaderboard) -> Path:
    empty_leaderboard(tmp_path / "small.db")
    return tmp_path / "small.db"


@pytest.mark.parametrize("found", ["0012", pytest.param(9999, marks=pytest.mark.slow)])
def test_another_schema_is_refused_with_the_way_out_which_works(
    board, leaderboard_url, found, tmp_path
) -> None:
    write_journal(tmp_path / "runs" / "sweeps" / "first" / JOURNAL_FILE, [sweep_started()])
    with board.writing() as session:
        session.execute(text("DROP TABLE cse_schema_version"))
        session.execute(text("CREATE TABLE cse_schema_version (version_num VARCHAR(32))"))
        session.execute(
            text("INSERT INTO cse_schema_version VALUES (:found)"), {"found": str(found)}
        )
    sentence = (
        f"has schema {found}, and .* needs {SCHEMA}; rebuild it .* with cse-leaderboard rebuild"
    )
    for opened in (open_store, open_for_reading):
        with pytest.raises(StoreError, match=sentence):
            opened(leaderboard_url)
    invoke(main, "rebuild", "--runs", tmp_path / "runs", "--store", leaderboard_url)
    with open_store(leaderboard_url) as store, store.session() as session:
        assert session.scalars(select(SchemaRecord.number)).all() == [SCHEMA]
        assert session.scalars(select(SweepRecord.name)).all() == ["first"]


def test_a_missing_store_is_made_for_writers_alone_and_once(leaderboard_url) -> None:
    with pytest.raises(StoreError, match=r"no leaderboard at .*creates it, or cse-leaderboard"):
        open_store(leaderboard_url, create=False)
    with ThreadPoolExecutor(2) as openers:
        for board in list(openers.map(open_store, [leaderboard_url] * 2)):
            board.close()


def test_a_folder_is_empty_where_the_environment_names_the_store(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CSE_STORE", url := f"sqlite:///{tmp_path}/lab.db")
    with pytest.raises(StoreError, match=r"ann/leaderboard\.db; CSE_STORE names another, which"):
        open_leaderboard(tmp_path / "ann")
    for location in (None, url):
        with pytest.raises(StoreError, match=r"lab\.db; cse-sweep creates it"):
            open_leaderboard(location)


def test_a_wrong_url_is_one_sentence_without_password(tmp_path) -> None:
    for wrong, message in {
        "postgresql+psycopg//u:hidden-one@h/d": "cannot be read; write sqlite:///FILE",
        "postgresql+psycopg://u:hidden-one@127.0.0.1:1/d": r"u:\*\*\*@127.0.0.1:1/d: .*refused",
        "postgresql+psycopg://u@127.0.0.1:1/d?password=hidden-one": "127.0.0.1:1/d: .*refused",
        "mysql://u:hidden-one@h/d": r"cannot be at mysql://u:\*\*\*@h/d",
        "sqlite://": "sqlite:// is in memory",
        "postgresql+nothing://u:hidden-one@h/d": "needs a driver that is not installed",
    }.items():
        with pytest.raises(StoreError, match=message) as caught:
            open_store(wrong)
        assert "hidden-one" not in str(caught.value), wrong
        assert "\n" not in str(caught.value), wrong
    notes = tmp_path / "notes.txt"
    notes.write_text("no database, but longer than the header of one\n" * 50)
    with pytest.raises(StoreError, match=r"notes.txt: file is not a database; .* rebuild"):
        open_store(f"sqlite:///{notes}")
    with pytest.raises(StoreError, match=r"notes.txt/leaderboard.db: "):
        open_store(f"sqlite:///{notes / 'leaderboard.db'}")


def test_database_errors_are_translated_and_nothing_stays(small) -> None:
    def write_nonsense(board: Store) -> None:
        with board.writing() as session:
            session.execute(text("INSERT INTO journal_cursors VALUES ('a', 1)"))
            session.execute(text("INSERT INTO journal_cursors VALUES ('b', NULL)"))

    with open_store(f"sqlite:///{small}") as board:
        with pytest.raises(StoreError, match=r"small.db: NOT NULL constraint failed"):
            write_nonsense(board)
        with board.session() as session:
            assert session.scalar(text("SELECT count(*) FROM journal_cursors")) == 0


def test_a_value_of_another_type_is_named_with_the_way_out(tmp_path, empty_leaderboard) -> None:
    """SQLite keeps any value in any column; such a file may come from a stranger."""
    empty_leaderboard(tmp_path / "leaderboard.db")
    with Journal(tmp_path / "sweeps" / "first" / JOURNAL_FILE) as journal:
        journal.append(sweep_started())
    url = f"sqlite:///{tmp_path / 'leaderboard.db'}"
    invoke(main, "rebuild", "--runs", tmp_path, "--only", "leaderboard")
    for column, value in (
        ("method", b"\xff"), ("planned", "many"), ("planned", 7.5), ("spec", "{"), ("spec", "[1]"),
        ("spec", 7.5), ("started", "yesterday"), ("started", b"\xff"),
    ):  # fmt: skip
        with closing(sqlite3.connect(tmp_path / "leaderboard.db")) as file, file:
            table = "sweep_starts" if column == "started" else "sweeps"
            kept = file.execute(f"SELECT {column} FROM {table}").fetchone()
            file.execute(f"UPDATE {table} SET {column} = ?", (value,))
        said = pytest.raises(StoreError, match=r"db: it has .* belongs; cse-leaderboard rebuild")
        with open_for_reading(url) as board, said, board.session() as session:
            session.execute(select(*SweepRecord.__table__.c)).all()
            session.execute(select(*SweepStartRecord.__table__.c)).all()
        with closing(sqlite3.connect(tmp_path / "leaderboard.db")) as file, file:
            file.execute(f"UPDATE {table} SET {column} = ?", kept)
    with open_for_reading(url) as board, board.session() as session:
        assert session.scalars(select(SweepRecord)).one().name == "first"


def test_queries_that_share_a_session_see_one_snapshot(board, leaderboard_url) -> None:

    def count(store: Store) -> int:
        with store.session() as session:
            return int(session.execute(text("SELECT count(*) FROM machines")).scalar_one())

    with open_store(leaderboard_url) as store, ThreadPoolExecutor(1) as other:
        with store.sharing():
            assert count(store) == 0
            with store.session() as session, store.session() as same:
                assert session is same
            with store.writing() as session:
                session.add(MachineRecord(host="a", hardware="b"))
            if leaderboard_url.startswith("sqlite"):  # the others read what is committed
                assert count(store) == 0
            assert other.submit(count, store).result() == 1
            with pytest.raises(StoreError), store.session() as session:
                session.execute(text("SELECT nothing"))
            assert count(store) == 1
        assert count(store) == 1


def test_a_store_in_a_folder_that_cannot_be_written_to_is_read(tmp_path, empty_leaderboard) -> None:
    locked, writable = tmp_path / "locked" / "leaderboard.db", tmp_path / "writable.db"
    with open_store(empty_leaderboard(locked)) as board, board.writing() as session:
        session.execute(text("INSERT INTO journal_cursors VALUES ('a', 1)"))
    shutil.copyfile(locked, writable)
    locked.parent.chmod(0o555)
    assert run_without_override(READ, f"sqlite:///{locked}", f"sqlite:///{writable}") == ["1"]
    locked.parent.chmod(0o755)
    assert list(locked.parent.iterdir()) == [locked]


def test_where_permissions_are_missing_the_file_its_owner_and_the_way_out_are_named(
    tmp_path, empty_leaderboard
) -> None:
    modes = {"file": (0o755, 0o444), "folder": (0o555, 0o444), "closed": (0o755, 0),
             "hidden": (0, 0o644)}  # fmt: skip
    files = {name: tmp_path / name / "store.db" for name in modes}
    for name, (of_folder, of_file) in modes.items():
        empty_leaderboard(files[name])
        files[name].chmod(of_file)
        files[name].parent.chmod(of_folder)
    lines = run_without_override(DENIED, *(f"sqlite:///{file}" for file in files.values()))
    for file in files.values():
        file.parent.chmod(0o755)
    reads, owner = {"file", "folder"}, files["file"].owner()
    for name, file in files.items():
        refused = file.parent if name == "hidden" else file
        for use in ("written", "read", "asked for studies"):
            line = lines.pop(0)
            if use == "read" and name in reads:
                assert line == "done", (name, use)
            else:
                told = f"to write to {refused}, which belongs to {owner}; "
                assert line.startswith("StoreError ") and told in line, (name, use, line)
