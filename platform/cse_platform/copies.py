"""Copy databases that are in use: SQLite by its backup API, PostgreSQL by its own tools."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, create_engine, inspect, make_url
from sqlalchemy.exc import SQLAlchemyError

from cse_platform.errors import NoStoreError, StoreDownError, StoreError
from cse_platform.postgres import connection_timeouts
from cse_platform.secrets import mask_text, mask_url

SUFFIXES = {"sqlite": ".db", "postgresql": ".dump"}
"""The suffix of a copy's file name, by the kind of the database."""


def database_kind(url: str) -> str | None:
    """Return the kind of a database, a key of `SUFFIXES`; None for a server or another kind."""
    backend = url.partition("://")[0].partition("+")[0]
    return backend if backend in SUFFIXES else None


def is_empty(url: str) -> bool:
    """Whether a PostgreSQL database has no table.

    Raises:
        StoreDownError: if it does not answer.
    """
    place = make_url(url)
    try:
        with create_engine(place, connect_args=connection_timeouts(place)).connect() as connection:
            return not inspect(connection).get_table_names()
    except (SQLAlchemyError, ImportError) as error:
        cause = (str(error).splitlines() or ["?"])[0]
        raise StoreDownError(f"{mask_url(url)}: {cause}") from error


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


def dump_postgres(url: str, file: Path) -> None:
    """Dump a consistent snapshot of a PostgreSQL database into a file, by `pg_dump`.

    Owners and privileges are left out: whoever restores the file owns the tables.

    Raises:
        StoreError: if `pg_dump` is not installed, is older than the server, or fails.
    """
    part = file.with_name(f"{file.name}.part")
    _run_tool("pg_dump", make_url(url), ["--format=custom", *_UNOWNED, f"--file={part}"])
    part.replace(file)


def restore_postgres(url: str, file: Path) -> None:
    """Restore a file of `dump_postgres` into an empty PostgreSQL database, in one transaction.

    Raises:
        StoreError: if `pg_restore` is not installed, or fails.
    """
    options = ["--exit-on-error", "--single-transaction", *_UNOWNED, str(file)]
    _run_tool("pg_restore", make_url(url), options)


_UNOWNED = ("--no-owner", "--no-privileges")


def without_password(url: URL) -> URL:
    """Return the URL of a PostgreSQL database for its own tools, without the password."""
    bare = url._replace(drivername="postgresql", password=None)
    return bare.difference_update_query(["password"])


def _run_tool(name: str, url: URL, options: Sequence[str]) -> None:
    """Run a PostgreSQL tool on a database, with the password in the environment."""
    if shutil.which(name) is None:
        raise StoreError(
            f"{name} is not here, which comes with PostgreSQL's client (Debian: apt-get install "
            "postgresql-client); it must be of the server's version or a newer one"
        )
    place = without_password(url).render_as_string()
    surroundings = dict(os.environ)
    if (password := url.query.get("password", url.password)) is not None:
        surroundings["PGPASSWORD"] = str(password)
    done = subprocess.run(
        [name, f"--dbname={place}", *options],
        env=surroundings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise StoreError(f"{url.set(query={}).render_as_string()}: {mask_text(said)}")
