"""Opens the SQL store of the leaderboard: SQLite on a laptop, PostgreSQL in a lab."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sqlalchemy import URL, Engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from cse_platform.errors import NoStoreError, StoreError
from cse_platform.leaderboard.engines import (
    is_read_only,
    keep_statistics,
    limit_statements,
    make_engine,
    make_reading_engine,
    parse_url,
    redact_url,
    translate_errors,
)
from cse_platform.leaderboard.schemas import (
    HEAD_REVISION,
    PREVIOUS_REVISION,
    VERSION_TABLE,
    explain_other_schema,
    lock_schema,
    show_added_columns,
    stored_revision,
)
from cse_platform.leaderboard.tables import SHARED_SWEEPS, Base
from cse_platform.tracking.provenance import user_and_host

if TYPE_CHECKING:
    from cse_platform.leaderboard.upgrade import Upgraded

RETRY_SECONDS = 0.15
"""A little longer than the interval at which a waiting SQLite writer tries again."""

SLICE_ROWS = 20_000
"""Approximate number of rows that a long write puts into one transaction, so that others wait
briefly.
"""

WRITING_LOCK = 0x0C5E_B0A4
"""Key of an advisory lock; arbitrary, but not used by another program on the server."""


class Store:
    """An open store; thread-safe. Nobody else writes to a `private` one.

    Raises:
        StoreError: within its sessions, for any database error, without the password.
    """

    def __init__(self, engine: Engine, *, private: bool = False) -> None:
        self._engine = engine
        self._private = private
        self._has_written = False
        self._shared = threading.local()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session for reading, or use the session that the thread shares.

        Changes are rolled back.
        """
        shared: Session | None = getattr(self._shared, "session", None)
        with translate_errors(self._engine.url):
            if shared is None:
                with Session(self._engine) as session:
                    yield session
            else:
                try:
                    yield shared
                except SQLAlchemyError:
                    shared.rollback()  # so that the next query works
                    raise

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Let all reads of this thread share one session, and so one transaction, until the end.

        The transaction begins with the first query. Other threads have sessions of their own.
        """
        with self.session() as session:
            before = getattr(self._shared, "session", None)
            self._shared.session = session
            session.info[SHARED_SWEEPS] = {}
            try:
                yield
            finally:
                self._shared.session = before

    @contextmanager
    def writing(self, *, alone: bool = True) -> Iterator[Session]:
        """Open a transaction that is committed at the end, or not at all; one at a time.

        On PostgreSQL, a transaction that is not `alone` does not wait for writers of other rows.
        """
        engine = self._engine.execution_options(writes=True)
        self._has_written = True
        with translate_errors(self._engine.url), Session(engine) as session, session.begin():
            if (
                alone and not self._private and session.get_bind().dialect.name == "postgresql"
            ):  # SQLite always locks
                session.execute(text(f"SELECT pg_advisory_xact_lock({WRITING_LOCK})"))
            yield session

    def require_write_access(self, table: type[Base]) -> None:
        """Raise StoreError if this login or user must not write to a table."""
        with self.writing(alone=False) as session:  # on SQLite it raises for a read-only file
            if session.get_bind().dialect.name == "postgresql":
                name = table.__tablename__
                session.execute(text(f'LOCK TABLE "{name}" IN ROW EXCLUSIVE MODE'))

    def name_writer(self) -> str:
        """Return the name of the writer: the login on PostgreSQL, else user and host of this
        process.

        The server has authenticated a login; access to a file is controlled by the operating
        system.
        """
        if self._engine.dialect.name == "sqlite":
            return user_and_host()
        with self.session() as session:
            return str(session.scalar(text("SELECT session_user")))

    def let_others_write(self) -> None:
        """Pause between two transactions of a long write, so that waiting writers get their turn.

        SQLite has no queue: a waiting writer tries again every tenth of a second.
        """
        if self._engine.dialect.name == "sqlite":
            time.sleep(RETRY_SECONDS)

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        if self._has_written and self._engine.dialect.name == "sqlite":
            self._has_written = False
            keep_statistics(self._engine)
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_store(url: str, *, create: bool = True) -> Store:
    """Open a store of this version's schema for writing; a missing one is created.

    The URL is `sqlite:///FILE` or `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`.

    Raises:
        NoStoreError: if there is none and `create` is False.
        StoreError: if the URL is neither of these, the store cannot be reached, or it has another
            schema. Only `upgrade_store` upgrades a store.
    """
    parsed = parse_url(url)
    engine = make_engine(parsed)
    revision = read_revision(engine)
    if revision is None and not create:
        raise _no_leaderboard(parsed)
    with translate_errors(parsed):
        if revision is None:
            make_tables(engine)
        else:
            _refuse_other_schema(revision)
    return Store(engine)


def open_for_reading(url: str) -> Store:
    """Open a store of this version's schema, or of the previous one, for queries.

    This works for a SQLite file in a folder that cannot be written to. In a store of the previous
    schema, missing columns have the values that an upgrade would give them.

    Raises:
        NoStoreError: if there is none.
        StoreError: if the URL is invalid, the store cannot be reached, or this version does not
            read its schema.
    """
    parsed = parse_url(url)
    engine = make_reading_engine(parsed) if is_read_only(parsed) else make_engine(parsed)
    revision = read_revision(engine)
    if revision is None:
        raise _no_leaderboard(parsed)
    if revision == PREVIOUS_REVISION:
        show_added_columns(engine)
    else:
        with translate_errors(parsed):
            _refuse_other_schema(revision)
    return Store(engine)


def refuse_other_schema(url: str) -> None:
    """Raise StoreError unless a store has this version's schema; it is only read.

    Raises:
        NoStoreError: if there is none.
    """
    parsed = parse_url(url)
    engine = make_reading_engine(parsed)
    revision = read_revision(engine)
    engine.dispose()
    if revision is None:
        raise _no_leaderboard(parsed)
    with translate_errors(parsed):
        _refuse_other_schema(revision)


def upgrade_store(url: str, *, has_copy: bool = False) -> "Upgraded":
    """Upgrade a store of an older schema to this version's; see `upgrade_schema`.

    Raises:
        NoStoreError: if there is none.
    """
    parsed = parse_url(url)
    engine = make_engine(parsed)
    if read_revision(engine) is None:
        raise _no_leaderboard(parsed)
    from cse_platform.leaderboard.upgrade import upgrade_schema  # alembic: 0.2 s

    with translate_errors(parsed):
        upgraded = upgrade_schema(engine, has_copy=has_copy)
    engine.dispose()
    return upgraded


def open_read_only(url: str) -> Store:
    """Open a store of any schema read-only; each session sees one snapshot.

    Statements that run too long are aborted, because views of an untrusted file can recurse
    forever.

    Raises:
        NoStoreError: if there is none.
        StoreError: if the URL is invalid, or the store cannot be reached.
    """
    parsed = parse_url(url)
    engine = make_reading_engine(parsed)
    limit_statements(engine)
    if read_revision(engine) is None:
        raise NoStoreError(f"no leaderboard at {redact_url(parsed)}")
    return Store(engine)


def read_revision(engine: Engine) -> str | None:
    """Read the schema revision of the store; None if there is no leaderboard."""
    url = engine.url
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
        return None
    with translate_errors(url), engine.connect() as connection:
        return stored_revision(connection)


def _no_leaderboard(url: URL) -> NoStoreError:
    return NoStoreError(f"no leaderboard at {redact_url(url)}; a finished cse-sweep creates it")


def _refuse_other_schema(revision: str) -> None:
    if revision != HEAD_REVISION:
        raise StoreError(explain_other_schema(revision))


def make_tables(engine: Engine) -> None:
    """Make all tables of this version's schema, unless another process has made them."""
    if engine.url.get_backend_name() == "sqlite":
        file = Path(str(engine.url.database))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()  # SQLite would make it without the write permission of the folder's group
    with engine.execution_options(writes=True).begin() as connection:
        lock_schema(connection)
        if stored_revision(connection) is None:
            Base.metadata.create_all(connection)
            key = f"CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num)"
            columns = f"version_num VARCHAR(32) NOT NULL, {key}"
            connection.execute(text(f"CREATE TABLE {VERSION_TABLE} ({columns})"))
            row = {"revision": HEAD_REVISION}
            connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES (:revision)"), row)
