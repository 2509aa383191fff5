"""Creates database engines for leaderboards, and translates database errors into ours."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection as SQLiteConnection
from typing import Any

from pydantic_core import to_json
from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError,
)
from sqlalchemy.pool import ConnectionPoolEntry

from cse_platform.errors import QueryError, StoreDownError, StoreError, StoreLostError
from cse_platform.postgres import connection_timeouts
from cse_platform.secrets import escape_text, mask_url
from cse_platform.stores.sql.tables import note_folder

BUSY_SECONDS = 30
"""How long a SQLite writer waits for another one."""


def redact_url(url: URL) -> str:
    """Format a URL for people and logs, without password and options."""
    return url.set(query={}).render_as_string(hide_password=True)


def parse_url(url: str) -> URL:
    """Parse the URL of a store. Raises StoreError unless it is a SQLite file or a PostgreSQL
    server.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The message omits the URL: its password cannot be masked if it cannot be parsed.
        raise StoreError(
            "the leaderboard's URL cannot be read; write sqlite:///FILE or "
            "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
        ) from None
    if escape_text(url) != url:
        raise StoreError(
            f"the leaderboard's URL {mask_url(url)} is not UTF-8, which no database takes; "
            "rename the folder, or name another one by --runs"
        )
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise StoreError(
            f"a leaderboard cannot live at {redact_url(parsed)}; "
            "write sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise StoreError(f"{redact_url(parsed)} would be lost at the end; write sqlite:///FILE")
    return parsed


def write_json(value: Any) -> str:
    """Write JSON as the leaderboard stores it, in a fifth of the time of Python's own encoder."""
    return to_json(value).decode()


def make_engine(url: URL) -> Engine:
    """Make an engine that reads and writes. Raises StoreError if its driver is not installed."""
    sqlite = url.get_backend_name() == "sqlite"
    options = {"timeout": BUSY_SECONDS} if sqlite else connection_timeouts(url)
    try:
        engine = create_engine(
            url, connect_args=options, pool_pre_ping=True, json_serializer=write_json
        )
    except (SQLAlchemyError, ImportError) as error:
        raise StoreError(
            f"{redact_url(url)} needs a driver that is not here ({error}); "
            "write postgresql+psycopg:// and install cse-platform[postgres]"
        ) from error
    if sqlite:
        note_folder(engine, url)
        event.listen(engine, "do_connect", _note_file)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "checkout", _refuse_replaced)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def make_reading_engine(url: URL) -> Engine:
    """Make a read-only engine whose transactions each see one snapshot of the store."""
    if url.get_backend_name() != "sqlite":
        return make_engine(url).execution_options(isolation_level="REPEATABLE READ")
    engine = create_engine(url)

    def connect(dialect: Dialect, record: ConnectionPoolEntry, *_given: Any) -> SQLiteConnection:
        _note_file(dialect, record, [str(url.database)], {})
        return sqlite3.connect(
            _make_read_only_uri(url),
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    note_folder(engine, url)
    event.listen(engine, "do_connect", connect)
    event.listen(engine, "checkout", _refuse_replaced)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_read_only_uri(url: URL) -> str:
    """Make the URI that opens a SQLite file for reading only.

    SQLite creates files beside a store even to read it. In a folder that cannot be written to, the
    file is opened as immutable instead, unless its write-ahead log holds data: that would be
    missed.
    """
    file = Path(str(url.database)).absolute()
    left = file.with_name(f"{file.name}-wal")
    whole = not left.exists() or left.stat().st_size == 0
    immutable = "&immutable=1" if is_read_only(url) and whole else ""
    return f"{file.as_uri()}?mode=ro{immutable}"


def is_read_only(url: URL) -> bool:
    """Return True if the store is an existing file in a folder that cannot be written to."""
    file = Path(str(url.database))
    sqlite = url.get_backend_name() == "sqlite"
    return sqlite and file.is_file() and not os.access(file.parent, os.W_OK)


_FILE = "file"
"""Key in the `info` of a SQLite connection: the path of its file, with device and inode."""


def _note_file(
    _dialect: Dialect, record: ConnectionPoolEntry, arguments: list[Any], _options: dict[str, Any]
) -> None:
    file = Path(arguments[0])
    record.info[_FILE] = file, _identify_file(file)


def _identify_file(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_replaced(info: Mapping[str, Any]) -> bool:
    """Whether another file has taken the place of the one that a connection has open."""
    file, identity = info[_FILE]
    return identity is not None and identity != _identify_file(file)


def _refuse_replaced(_connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
    """Let the pool open a new connection if another file has taken the place of this one."""
    if _is_replaced(record.info):
        raise DisconnectionError


def _prepare_sqlite(connection: SQLiteConnection, _record: Any) -> None:
    connection.isolation_level = None  # we begin transactions ourselves
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock before it reads: of two that read first, one would fail to upgrade.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    if writes and _is_replaced(connection.info):  # while this one waited for the lock
        raise StoreDownError("it was rebuilt while this waited; give the command again")


def keep_statistics(engine: Engine) -> None:
    """Let SQLite collect statistics on the tables that were written, for its query planner.

    `PRAGMA optimize` runs the same, but skips tables that this connection has not read. Nothing is
    collected while another writer holds the lock: statistics are not worth a wait or an error.
    """
    with suppress(SQLAlchemyError), engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        connection.exec_driver_sql("PRAGMA analysis_limit = 400")
        connection.exec_driver_sql("ANALYZE")
        connection.commit()


@contextmanager
def translate_errors(url: URL) -> Iterator[None]:
    """Raise database errors as our own, with the redacted URL in front."""
    try:
        yield
    except (StoreError, QueryError) as error:
        raise type(error)(f"{redact_url(url)}: {error}") from error
    except SQLAlchemyError as error:
        reason = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        kind = StoreError
        if isinstance(error, OperationalError | InterfaceError | TimeoutError):
            kind = StoreDownError
        elif type(error) is DatabaseError:  # such as "file is not a database"
            kind = StoreLostError
            reason += "; cse-leaderboard rebuild keeps it as a .damaged file and makes it anew"
        elif isinstance(error, IntegrityError | DataError):
            kind = StoreLostError
        raise kind(f"{redact_url(url)}: {' '.join(reason.split())}") from error
    except OSError as error:
        raise StoreError(f"{redact_url(url)}: {error.strerror}") from error
