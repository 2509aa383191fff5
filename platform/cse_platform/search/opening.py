"""Opens the search store, which is Optuna's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock
from optuna.storages import RDBStorage
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from cse_platform.errors import StoreDownError, StoreError
from cse_platform.postgres import patience
from cse_platform.secrets import mask_url

OPENING_LOCK = 0x0C5E_0BE4
"""Number of the advisory lock, which no other program on the server should use."""


def open_search_store(url: str) -> RDBStorage:
    """Open a search store, and make its tables if they are missing.

    Raises:
        StoreError: if the URL is not a store's, its driver is not here, or its schema is newer.
    """
    try:
        with _lock_store(url):
            storage = RDBStorage(url, engine_kwargs=_build_engine_options(url))
    except (ImportError, ValueError, RuntimeError, OSError) as error:  # driver, port, schema, lock
        raise StoreError(f"search store {mask_url(url)}: {error}") from error
    if storage.engine.dialect.name == "sqlite":
        with storage.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    return storage


def refuse_unreachable(url: str) -> None:
    """Raise StoreError unless the search store answers; a SQLite file may be missing."""
    if url.startswith("sqlite"):
        return
    try:
        with create_engine(url, **_build_engine_options(url)).connect():
            pass
    except (SQLAlchemyError, ImportError) as error:
        cause = (str(error).splitlines() or ["?"])[0]
        raise StoreDownError(f"search store {mask_url(url)}: {cause}") from error


@contextmanager
def _lock_store(url: str) -> Iterator[None]:
    """Lock the store: two drivers that make its tables at once would break each other's."""
    place = make_url(url)
    file = Path(place.database or "")
    if place.get_backend_name() == "sqlite" and file.parent.is_dir():  # else the lock would make it
        with FileLock(f"{file}.lock"):
            file.touch()  # SQLite would keep a group out that may write to the folder
            yield
    elif place.get_backend_name() == "postgresql":
        with create_engine(url, **_build_engine_options(url)).begin() as connection:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({OPENING_LOCK})"))
            yield
    else:
        yield


def _build_engine_options(url: str) -> dict[str, Any]:
    return {"pool_pre_ping": True, "connect_args": patience(make_url(url))}
