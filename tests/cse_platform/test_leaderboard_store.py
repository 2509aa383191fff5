"""Opening a store: made, upgraded or refused in one sentence, never half."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from cse_platform.errors import StoreError
from cse_platform.leaderboard.schemas import HEAD_REVISION
from cse_platform.leaderboard.store import (
    Store,
    open_for_reading,
    open_store,
    refuse_other_schema,
    upgrade_store,
)
from cse_platform.leaderboard.tables import Base, MachineRecord
from cse_platform.leaderboard.upgrade import alembic_config, migration_options

OPEN = "import sys; from cse_platform.leaderboard.store import open_store; open_store(sys.argv[1])"

READ = """
import sys
from sqlalchemy import text
from cse_platform.leaderboard.store import open_for_reading, open_read_only
for board in (open_for_reading(sys.argv[1]), open_read_only(sys.argv[1])):
    with board, board.session() as session:
        print(session.scalar(text("SELECT count(*) FROM journal_cursors")))
"""


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A store in a folder that can only be read."""
    file = tmp_path / "locked" / "leaderboard.db"
    with open_store(f"sqlite:///{file}") as board, board.writing() as session:
        session.execute(text("INSERT INTO journal_cursors VALUES ('a', 1)"))
    file.parent.chmod(0o555)
    yield file
    file.parent.chmod(0o755)


def read_heeding_permissions(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", READ, f"sqlite:///{file}"]
    if not os.geteuid():
        if not shutil.which("setpriv"):
            pytest.skip("root heeds no permissions, and there is no setpriv to make it")
        command = ["setpriv", "--bounding-set", "-dac_override", *command]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def url(leaderboard_url: str) -> str:
    """An empty store of each kind."""
    return leaderboard_url


def test_the_models_are_what_the_migrations_make(url: str) -> None:
    open_store(url).close()
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=migration_options())
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_checks_are_what_the_migrations_make(url: str) -> None:
    """Each once; alembic does not compare these."""
    open_store(url).close()
    engine = create_engine(url)
    for table in Base.metadata.sorted_tables:
        checks = inspect(engine).get_check_constraints(table.name)
        declared = sorted(str(one.name) for one in table.constraints if hasattr(one, "sqltext"))
        assert sorted(str(one["name"]) for one in checks) == declared
    engine.dispose()


def test_down_and_up_again(url: str) -> None:
    open_store(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        command.downgrade(alembic_config(connection), "base")
        assert inspect(connection).get_table_names() == ["cse_schema_version"]
    engine.dispose()
    open_store(url).close()


def test_a_store_of_this_schema_opens_without_the_migrations(url: str) -> None:
    open_store(url).close()
    engine = create_engine(url)
    with engine.connect() as connection:
        script = ScriptDirectory.from_config(alembic_config(connection))
    engine.dispose()
    assert script.get_current_head() == HEAD_REVISION
    code = f"{OPEN}; sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, url]).returncode == 0


def test_a_newer_schema_is_refused(url: str) -> None:
    open_store(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE cse_schema_version SET version_num = '9999'"))
    engine.dispose()
    newer = r"written by a newer version .* '9999', and this version knows up to '\d{4}'"
    for opened in (open_store, open_for_reading, refuse_other_schema, upgrade_store):
        with pytest.raises(StoreError, match=newer):
            opened(url)


def test_processes_that_open_an_empty_store_at_once_do_not_collide(url: str) -> None:
    openers = [
        subprocess.Popen([sys.executable, "-c", OPEN, url], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [(one.communicate()[1], one.returncode) for one in openers] == [("", 0)] * 4


def test_a_missing_store_is_not_made_for_a_reader(url: str) -> None:
    with pytest.raises(StoreError, match=r"no leaderboard at .*; a finished cse-sweep creates it"):
        open_store(url, create=False)
    open_store(url).close()
    open_store(url, create=False).close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+psycopg//u:hidden-one@h/d", "cannot be read; write sqlite:///FILE"),
        ("postgresql+psycopg://u:hidden-one@127.0.0.1:1/d", r"u:\*\*\*@127.0.0.1:1/d: .*refused"),
        ("postgresql+psycopg://u@127.0.0.1:1/d?password=hidden-one", "127.0.0.1:1/d: .*refused"),
        ("mysql://u:hidden-one@h/d", r"cannot live at mysql://u:\*\*\*@h/d"),
        ("sqlite://", "sqlite:// would be lost at the end"),
        ("postgresql+nothing://u:hidden-one@h/d", "needs a driver that is not here"),
    ],
)
def test_a_wrong_url_is_one_sentence_without_password(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        open_store(url)
    assert "hidden-one" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, but longer than the header of one\n" * 50)
    with pytest.raises(StoreError, match=r"notes.txt: file is not a database"):
        open_store(f"sqlite:///{tmp_path / 'notes.txt'}")


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/leaderboard.db: "):
        open_store(f"sqlite:///{tmp_path / 'file' / 'leaderboard.db'}")


def test_sqlite_is_set_up_for_one_writer_and_many_readers(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'a.db'}") as board, board.session() as session:
        assert session.scalar(text("PRAGMA journal_mode")) == "wal"
        assert session.scalar(text("PRAGMA foreign_keys")) == 1
        assert session.scalar(text("PRAGMA busy_timeout")) == 30_000


def test_database_errors_are_translated_and_nothing_stays(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'a.db'}") as board:
        with pytest.raises(StoreError, match=r"a.db: NOT NULL constraint failed"):
            _write_nonsense(board)
        with board.session() as session:
            assert session.scalar(text("SELECT count(*) FROM journal_cursors")) == 0


def _write_nonsense(board: Store) -> None:
    with board.writing() as session:
        session.execute(text("INSERT INTO journal_cursors VALUES ('a', 1)"))
        session.execute(text("INSERT INTO journal_cursors VALUES ('b', NULL)"))


def test_readers_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with open_store(f"sqlite:///{path}") as board, board.writing() as session:
        session.execute(text("INSERT INTO journal_cursors VALUES ('a', 1)"))
        reader = sqlite3.connect(path, timeout=0)
        assert reader.execute("SELECT count(*) FROM journal_cursors").fetchone() == (0,)
        reader.close()


def test_questions_that_share_a_session_see_one_moment(url: str) -> None:
    """Another thread has its own, and a question that fails does not spoil the next one."""

    def count(store: Store) -> int:
        with store.session() as session:
            return int(session.execute(text("SELECT count(*) FROM machines")).scalar_one())

    with open_store(url) as store, ThreadPoolExecutor(1) as other:
        with store.sharing():
            assert count(store) == 0
            with store.session() as session, store.session() as same:
                assert session is same
            with store.writing() as session:
                session.add(MachineRecord(host="a", hardware="b"))
            if url.startswith("sqlite"):  # the others read what is committed
                assert count(store) == 0
            assert other.submit(count, store).result() == 1
            with pytest.raises(StoreError), store.session() as session:
                session.execute(text("SELECT nothing"))
            assert count(store) == 1
        assert count(store) == 1


def test_a_store_in_a_folder_that_cannot_be_written_to_is_read(locked: Path) -> None:
    done = read_heeding_permissions(locked)
    assert (done.stderr, done.stdout.split()) == ("", ["1", "1"])
    assert list(locked.parent.iterdir()) == [locked]


def test_there_an_older_schema_is_refused(locked: Path) -> None:
    engine = create_engine(f"sqlite:///{locked}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE cse_schema_version SET version_num = '0001'"))
    engine.dispose()
    done = read_heeding_permissions(locked)
    assert re.search("of the older schema '0001'", done.stderr)
