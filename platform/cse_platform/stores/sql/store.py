"""Opens the SQL store of the leaderboard: SQLite on a laptop, PostgreSQL in a lab.

Database errors are raised as our own.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection as SQLiteConnection
from typing import Any, Self

from pydantic_core import to_json
from sqlalchemy import (
    URL,
    Connection,
    Dialect,
    Engine,
    create_engine,
    delete,
    event,
    exc,
    false,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from cse_platform.databases import ROLES, connection_timeouts, explain_denial
from cse_platform.errors import NoStoreError, QueryError, StoreDownError, StoreError, StoreLostError
from cse_platform.secrets import mask_url
from cse_platform.stores.sql.column_types import note_folder
from cse_platform.stores.sql.tables import Base, SchemaRecord, SweepRecord
from cse_platform.tracking.provenance import user_and_host

MOST_READERS = 12
"""Threads of one process that can read a store on a server at once, besides the first."""
BUSY_SECONDS = 30
"""How long a SQLite writer waits for another one."""
_FORMS = "write sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"


def redact_url(url: URL) -> str:
    """Format a URL for people and logs, without password and options."""
    return url.set(query={}).render_as_string(hide_password=True)


def parse_url(url: str) -> URL:
    """Parse the URL of a store. Raises StoreError unless it is a SQLite file or a PostgreSQL
    server.
    """
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        # The message omits the URL: its password cannot be masked if it cannot be parsed.
        raise StoreError(f"the leaderboard's URL cannot be read; {_FORMS}") from None
    try:
        url.encode()
    except UnicodeEncodeError:
        raise StoreError(
            f"the leaderboard's URL {mask_url(url)} is not UTF-8, which databases need; rename "
            "the folder, or choose another one with --runs"
        ) from None
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise StoreError(f"a leaderboard cannot be at {redact_url(parsed)}; {_FORMS}")
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise StoreError(
            f"{redact_url(parsed)} is in memory and would be lost; write sqlite:///FILE"
        )
    return parsed


def write_json(value: Any) -> str:
    """Write JSON as the leaderboard stores it, in a fifth of the time of Python's own encoder."""
    return to_json(value).decode()


def make_engine(url: URL, **pool: Any) -> Engine:
    """Make an engine that reads and writes. Raises StoreError if its driver is not installed.

    `pool` are SQLAlchemy's arguments of its pool of connections. By default it keeps one to a
    server, and opens a second one while two threads need one, as roles can have few.
    """
    sqlite = url.get_backend_name() == "sqlite"
    options = {"timeout": BUSY_SECONDS} if sqlite else connection_timeouts(url)
    pool = pool or ({} if sqlite else {"pool_size": 1, "max_overflow": 1})
    try:
        engine = create_engine(
            url, connect_args=options, pool_pre_ping=True, json_serializer=write_json, **pool
        )
    except (exc.SQLAlchemyError, ImportError) as error:
        raise StoreError(
            f"{redact_url(url)} needs a driver that is not installed ({error}); write "
            "postgresql+psycopg:// and install cse-platform[postgres]"
        ) from error

    def prepare(connection: SQLiteConnection, _record: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")

    if sqlite:
        note_folder(engine, url)
        event.listen(engine, "do_connect", _note_file)
        event.listen(engine, "connect", prepare)
        event.listen(engine, "checkout", _refuse_replaced)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_reading_engine(url: URL) -> Engine:
    """Make a read-only engine whose transactions each see one snapshot of the store."""
    if url.get_backend_name() != "sqlite":
        # Readers have many threads, such as those of the page, which wait for each other's results.
        engine = make_engine(url, pool_size=1, max_overflow=MOST_READERS)
        return engine.execution_options(isolation_level="REPEATABLE READ")
    engine = create_engine(url)

    def connect(dialect: Dialect, record: ConnectionPoolEntry, *_given: Any) -> SQLiteConnection:
        _note_file(dialect, record, [str(url.database)], {})
        # SQLite creates files beside a store even to read it, and removes them at the end only if
        # it may write. In a folder that cannot be written to, the file is opened as immutable
        # instead, unless its write-ahead log holds data, which would be missed.
        file = Path(str(url.database)).absolute()
        left = file.with_name(f"{file.name}-wal")
        whole = not left.exists() or left.stat().st_size == 0
        locked = file.is_file() and not os.access(file.parent, os.W_OK)
        mode = "ro" if locked else "rw"
        immutable = "&immutable=1" if locked and whole else ""
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode={mode}{immutable}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA query_only = ON")
        return connection

    note_folder(engine, url)
    event.listen(engine, "do_connect", connect)
    event.listen(engine, "checkout", _refuse_replaced)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


_FILE = "file"
"""Key in the `info` of a SQLite connection: the path of its file, with device and inode."""


def _note_file(
    _dialect: Dialect, record: ConnectionPoolEntry, arguments: list[Any], _options: dict[str, Any]
) -> None:
    file = Path(arguments[0])
    record.info[_FILE] = file, _identify_file(file)


def _identify_file(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_replaced(info: Mapping[str, Any]) -> bool:
    """Return whether another file has taken the place of the one that a connection has open."""
    file, identity = info[_FILE]
    return identity is not None and identity != _identify_file(file)


def _refuse_replaced(_connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
    """Let the pool open a new connection if another file has taken the place of this one."""
    if _is_replaced(record.info):
        raise exc.DisconnectionError


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock before it reads: of two that read first, one would fail to upgrade.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    if writes and _is_replaced(connection.info):  # while this one waited for the lock
        raise StoreDownError("it was rebuilt meanwhile; run the command again")


_LIMIT_EXCEEDED = "54"
"""The class of PostgreSQL's errors that a value is too large, such as for an index."""


@contextmanager
def translate_errors(url: URL) -> Iterator[None]:
    """Raise database errors as our own, with the redacted URL in front."""
    try:
        yield
    except (StoreError, QueryError) as error:
        if str(error).startswith(redact_url(url)):  # of a session within another
            raise
        raise type(error)(f"{redact_url(url)}: {error}") from error
    except (exc.SQLAlchemyError, sqlite3.Error) as error:
        reason = str(error.orig) if isinstance(error, exc.DBAPIError) else str(error)
        kind = StoreError
        state = getattr(error.orig, "sqlstate", None) if isinstance(error, exc.DBAPIError) else None
        if (denial := explain_denial(str(url), error)) is not None:
            reason = denial
            is_down = isinstance(error, exc.OperationalError) and not str(url).startswith("sqlite")
            kind = StoreDownError if is_down else StoreError
        elif (state or "").startswith(_LIMIT_EXCEEDED):
            kind = StoreLostError
        elif isinstance(
            error,
            exc.OperationalError | exc.InterfaceError | exc.TimeoutError | sqlite3.OperationalError,
        ):
            kind = StoreDownError
            if "disk is full" in reason:
                reason += "; free some space, and try again"
        elif type(error) is exc.DatabaseError:  # such as "file is not a database"
            kind = StoreLostError
            reason += (
                "; cse-leaderboard rebuild keeps the file under another name and makes a new one"
            )
        elif isinstance(error, exc.IntegrityError | exc.DataError):
            kind = StoreLostError
        raise kind(f"{redact_url(url)}: {' '.join(reason.split())}") from error
    except OSError as error:
        reason = explain_denial(str(url), error) or error.strerror or str(error)
        raise StoreError(f"{redact_url(url)}: {reason}") from error


def server_time(session: Session) -> datetime:
    """Read the clock of the database server, which decides when a lease expires."""
    if session.get_bind().dialect.name == "sqlite":  # a file on this machine
        return datetime.now(UTC)
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return now.astimezone(UTC)


SCHEMA = 9
"""The number of the schema that the tables have; raised with each change of them."""
HANG_SECONDS = 5.0
"""Longest wait for a thread that asks the store, at the end of a sweep; then the store hangs."""
SLICE_ROWS = 20_000
"""Approximate number of rows that a long write puts into one transaction, so that others wait
briefly.
"""
WRITING_LOCK = 0x0C5E_B0A4
SCHEMA_LOCK = 0x0C5E_1EAD
"""Keys of advisory locks; arbitrary, but not used by another program on the server."""


class Store:
    """An open store; thread-safe. Nobody else writes to a `private` one.

    Its sessions raise any database error as StoreError, without the password.
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
                except exc.SQLAlchemyError:
                    shared.rollback()  # so that the next query works
                    raise

    @contextmanager
    def sharing(self) -> Iterator[Session]:
        """Let all reads of this thread share one session, and so one transaction, until the end.

        The transaction begins with the first query. Other threads have sessions of their own.
        """
        with self.session() as session:
            before = getattr(self._shared, "session", None)
            self._shared.session = session
            try:
                yield session
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

        Raises StoreError if it has another schema, cannot be reached, or must not be made by this
        login.
        """
        if _has_schema(self._engine):
            return False
        with translate_errors(self._engine.url):
            make_tables(self._engine)
        return True

    def require_schema(self) -> None:
        """Raise NoStoreError if there is no leaderboard, or StoreError if it has another schema."""
        if not _has_schema(self._engine):
            url = redact_url(self._engine.url)
            ways = "cse-sweep creates it, or cse-leaderboard rebuild from journals"
            raise NoStoreError(f"no leaderboard at {url}; {ways}")

    def require_write_access(self, table: type[Base]) -> None:
        """Raise StoreError if this login or user must not write to a table."""
        with self.writing(alone=False) as session:
            if session.get_bind().dialect.name == "postgresql":
                name = table.__tablename__
                session.execute(text(f'LOCK TABLE "{name}" IN ROW EXCLUSIVE MODE'))
            else:  # the first write raises for a read-only file
                session.execute(delete(table).where(false()))

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
        """Pause between two transactions of a long write, so that waiting writers get a turn."""
        if self._engine.dialect.name == "sqlite":
            time.sleep(0.15)  # without a queue, a waiting writer tries again every tenth

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        if self._has_written and self._engine.dialect.name == "sqlite":
            self._has_written = False
            # Statistics for SQLite's query planner. `PRAGMA optimize` runs the same, but skips
            # tables that this connection has not read. They are not worth a wait or an error.
            with suppress(exc.SQLAlchemyError), self._engine.connect() as connection:
                for line in ("PRAGMA busy_timeout = 0", "PRAGMA analysis_limit = 400", "ANALYZE"):
                    connection.exec_driver_sql(line)
                connection.commit()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_store(url: str, *, create: bool = True) -> Store:
    """Open a store for writing; a missing one is created.

    The URL is `sqlite:///FILE` or `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`. Raises
    NoStoreError if there is none and `create` is False, else StoreError if the URL is neither, the
    store cannot be reached, or it has another schema.
    """
    parsed = parse_url(url)
    store = Store(make_engine(parsed))
    if create:
        store.make_if_missing()
    else:
        store.require_schema()
    return store


def open_for_reading(url: str) -> Store:
    """Open a store so that nothing is written to it; each session sees one snapshot.

    This works in a folder that cannot be written to, too. Raises as `open_store` without `create`.
    """
    store = Store(_make_reading_engine(parse_url(url)))
    store.require_schema()
    return store


def refuse_read_only(url: str) -> None:
    """Raise StoreError if this login must not write to a leaderboard on PostgreSQL, or not make
    its tables if there are none; changes nothing.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":  # whoever may write the file may do all
        return
    engine = make_engine(parsed)
    with Store(engine) as store:
        if _has_schema(engine):
            store.require_write_access(SweepRecord)
        else:
            with store.session() as session:
                _require_making(session.connection())


def _has_schema(engine: Engine) -> bool:
    """Return whether there is a leaderboard. Raises StoreError if it has another schema."""
    schema = read_schema(engine)
    if schema is not None and schema != SCHEMA:
        raise StoreError(
            f"{redact_url(engine.url)}: it has schema {schema}, and this version of cse-platform "
            f"needs {SCHEMA}; rebuild it from the journals with cse-leaderboard rebuild, with "
            "its --runs or --store"
        )
    return schema is not None


def read_schema(engine: Engine) -> int | None:
    """Read the number of a store's schema; None if there is no leaderboard."""
    url = engine.url
    with translate_errors(url):
        if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
            return None
        with engine.connect() as connection:
            return _select_schema(connection)


def _select_schema(connection: Connection) -> int | None:
    if not inspect(connection).has_table(SchemaRecord.__tablename__):
        return None
    return connection.scalar(select(SchemaRecord.number))


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
            if connection.dialect.name == "postgresql":
                _require_making(connection)
            Base.metadata.create_all(connection)
            connection.execute(insert(SchemaRecord).values(number=SCHEMA))


def _require_making(connection: Connection) -> None:
    """Raise StoreError if this login must not make tables on PostgreSQL."""
    if not connection.scalar(text("SELECT has_schema_privilege(current_schema(), 'CREATE')")):
        raise StoreError(
            "there is no leaderboard yet, and this login may not create tables; let the owner of "
            "the tables start the first sweep, or rebuild it from journals, if there are some: "
            f"{ROLES}"
        )
