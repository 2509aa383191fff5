"""Opens the SQL store of the leaderboard: SQLite on a laptop, PostgreSQL in a lab."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sqlalchemy import URL, Connection, Engine, insert, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from cse_platform.errors import NoStoreError, StoreError
from cse_platform.stores.sql.engines import (
    is_read_only,
    keep_statistics,
    make_engine,
    make_reading_engine,
    parse_url,
    redact_url,
    translate_errors,
)
from cse_platform.stores.sql.tables import SHARED_SWEEPS, Base, SchemaRecord
from cse_platform.tracking.provenance import user_and_host

SCHEMA = 2
"""The number of the schema that the tables have; raised with each change of them."""

RETRY_SECONDS = 0.15
"""A little longer than the interval at which a waiting SQLite writer tries again."""

SLICE_ROWS = 20_000
"""Approximate number of rows that a long write puts into one transaction, so that others wait
briefly.
"""

WRITING_LOCK = 0x0C5E_B0A4
SCHEMA_LOCK = 0x0C5E_1EAD
"""Keys of advisory locks; arbitrary, but not used by another program on the server."""


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

    def make_if_missing(self) -> bool:
        """Make the tables if there is no leaderboard. Returns whether there was none.

        Raises StoreError if it has another schema, or cannot be reached.
        """
        if _has_schema(self._engine):
            return False
        with translate_errors(self._engine.url):
            make_tables(self._engine)
        return True

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
    """Open a store for writing; a missing one is created.

    The URL is `sqlite:///FILE` or `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`.

    Raises:
        NoStoreError: if there is none and `create` is False.
        StoreError: if the URL is neither of these, the store cannot be reached, or it has another
            schema.
    """
    parsed = parse_url(url)
    store = Store(make_engine(parsed))
    if create:
        store.make_if_missing()
    elif not _has_schema(store._engine):
        raise _no_leaderboard(parsed)
    return store


def open_for_reading(url: str) -> Store:
    """Open a store for queries; this works in a folder that cannot be written to, too.

    Raises:
        NoStoreError: if there is none.
        StoreError: if the URL is invalid, the store cannot be reached, or it has another schema.
    """
    parsed = parse_url(url)
    return _open_existing(
        make_reading_engine(parsed) if is_read_only(parsed) else make_engine(parsed)
    )


def open_read_only(url: str) -> Store:
    """Open a store so that nothing is written to it; each session sees one snapshot.

    Raises:
        NoStoreError: if there is none.
        StoreError: if the URL is invalid, the store cannot be reached, or it has another schema.
    """
    return _open_existing(make_reading_engine(parse_url(url)))


def _open_existing(engine: Engine) -> Store:
    if not _has_schema(engine):
        raise _no_leaderboard(engine.url)
    return Store(engine)


def _has_schema(engine: Engine) -> bool:
    """Whether there is a leaderboard. Raises StoreError if it has another schema."""
    found = read_schema(engine)
    if found is not None and found != SCHEMA:
        raise StoreError(
            f"{redact_url(engine.url)}: it has schema {found} and this version of cse-platform "
            f"needs {SCHEMA}; cse-leaderboard rebuild, with its --runs or --store, makes it anew "
            "from the journals"
        )
    return found is not None


def read_schema(engine: Engine) -> int | None:
    """Read the number of a store's schema; None if there is no leaderboard."""
    url = engine.url
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
        return None
    with translate_errors(url), engine.connect() as connection:
        return _select_schema(connection)


def _select_schema(connection: Connection) -> int | None:
    if not inspect(connection).has_table(SchemaRecord.__tablename__):
        return None
    return connection.scalar(select(SchemaRecord.number))


def _no_leaderboard(url: URL) -> NoStoreError:
    return NoStoreError(f"no leaderboard at {redact_url(url)}; a finished cse-sweep creates it")


def make_tables(engine: Engine) -> None:
    """Make all tables of this version's schema, unless another process has made them."""
    if engine.url.get_backend_name() == "sqlite":
        file = Path(str(engine.url.database))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()  # SQLite would make it without the write permission of the folder's group
    with engine.execution_options(writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":  # SQLite's transaction locks
            connection.execute(text(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})"))
        if _select_schema(connection) is None:
            Base.metadata.create_all(connection)
            connection.execute(insert(SchemaRecord).values(number=SCHEMA))
