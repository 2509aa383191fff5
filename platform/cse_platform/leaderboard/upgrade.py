"""Brings a store to the schema of this version, under a lock that holds others off."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from cse_platform.errors import StoreError, StoreLostError
from cse_platform.leaderboard.tables import VERSION_TABLE, Base, stored_revision

MIGRATION_LOCK = 0x0C5E_1EAD
"""Any number that no other program on the server locks."""


def migration_options() -> dict[str, Any]:
    """Return the options of alembic for our tables."""
    return {
        "target_metadata": Base.metadata,
        "version_table": VERSION_TABLE,
        "render_as_batch": True,  # SQLite alters a table by making it anew
    }


@contextmanager
def open_migration(engine: Engine) -> Iterator[Connection]:
    """Open a transaction in which tables that others refer to may be made anew.

    SQLite would count the rows of a dropped table as deleted, so that its foreign keys are
    checked at the end instead.

    Raises:
        StoreLostError: if a row then refers to one that is not there.
    """
    with engine.execution_options(writes=True).connect() as connection:
        sqlite = connection.dialect.name == "sqlite"
        driver = connection.connection
        if sqlite:  # within a transaction it would do nothing
            driver.cursor().execute("PRAGMA foreign_keys = OFF")
        try:
            with connection.begin():
                yield connection
                if sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                    raise StoreLostError("its rows contradict each other; restore it from a copy")
        finally:
            if sqlite:
                driver.cursor().execute("PRAGMA foreign_keys = ON")


def migrate(connection: Connection) -> None:
    """Bring an empty or older store to this schema, in a transaction of `open_migration`.

    Raises:
        StoreError: if the store is of a schema that this version does not know.
    """
    if connection.dialect.name == "postgresql":  # on SQLite the transaction itself locks
        connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
    config = alembic_config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    current = stored_revision(connection)
    if current is not None and current not in known:
        raise StoreError(
            f"the leaderboard is of schema {current!r}, this version knows up to {max(known)!r}; "
            "upgrade cse-platform"
        )
    command.upgrade(config, "head")


def alembic_config(connection: Connection) -> Config:
    """Make the settings of alembic for work on an open connection."""
    config = Config(attributes={"connection": connection})
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    return config
