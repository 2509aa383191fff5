"""Copy SQLite databases that are in use, and put new ones in their place."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL

from cse_platform.errors import NoStoreError, StoreError


def copy_sqlite(file: Path, copy: Path) -> None:
    """Copy a consistent snapshot of a SQLite database; an existing `copy` is replaced.

    What others write meanwhile is not included. The file appears only when it is complete.

    Raises:
        NoStoreError: if there is no such file.
        StoreError: if it is not a database, or the copy cannot be written.
    """
    if not file.is_file():
        raise NoStoreError(f"there is no database {file}")
    part = copy.with_name(f"{copy.name}.part")
    part.unlink(missing_ok=True)
    part.touch()  # SQLite would create it without write permission for the group
    source = f"{file.absolute().as_uri()}?mode=ro"
    try:
        with (
            closing(sqlite3.connect(source, uri=True)) as there,
            closing(sqlite3.connect(part)) as here,
        ):
            there.backup(here)
    except sqlite3.Error as error:
        part.unlink()
        raise StoreError(f"{file} cannot be copied to {copy}: {error}") from error
    put_database(part, copy)


def put_database(part: Path, file: Path) -> None:
    """Move a complete SQLite database to its place, without what a former one has left there.

    SQLite would apply the log or journal of a deleted database to the new one, and break it.
    """
    for end in ("-journal", "-wal", "-shm"):
        file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
    part.replace(file)


def without_password(url: URL) -> URL:
    """Return the URL of a PostgreSQL database for its own tools, without the password."""
    bare = url._replace(drivername="postgresql", password=None)
    return bare.difference_update_query(["password"])
