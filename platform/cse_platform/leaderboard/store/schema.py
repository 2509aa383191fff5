"""Brings a store to the schema of this version, under a lock that holds others off."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from cse_platform.errors import StoreError, StoreLostError
from cse_platform.leaderboard.store import score_tables

VERSION_TABLE = "cse_schema_version"
"""Not `alembic_version`, which Optuna and MLflow both claim."""

_FOLDER = Path(__file__).parent / "migrations"

MIGRATION_LOCK = 0x0C5E_1EAD
"""Any number that no other program on the server locks."""


def migration_options() -> dict[str, Any]:
    """What alembic must know about our tables."""
    return {
        # Of the last module of tables: with it, all are known.
        "target_metadata": score_tables.ScoreRecord.metadata,
        "version_table": VERSION_TABLE,
        "render_as_batch": True,  # SQLite alters a table by making it anew
    }


def stored_revision(connection: Connection) -> str | None:
    """The schema of a store; None where there is no leaderboard."""
    options = migration_options()
    return MigrationContext.configure(connection, opts=options).get_current_revision()


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """One transaction in which tables may be made anew, which other tables refer to.

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
    """Bring an empty or older store to this schema, in a transaction of `migrating`.

    Raises:
        StoreError: if the store is of a schema that this version does not know.
    """
    if connection.dialect.name == "postgresql":  # on SQLite the transaction itself locks
        connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
    known = {script.revision for script in _migrations().walk_revisions()}
    current = stored_revision(connection)
    if current is not None and current not in known:
        raise StoreError(
            f"the leaderboard is of schema {current!r}, this version knows up to {max(known)!r}; "
            "upgrade cse-platform"
        )
    command.upgrade(alembic_config(connection), "head")


def is_current(connection: Connection) -> bool:
    """Whether a store is of this version's schema."""
    return stored_revision(connection) == _migrations().get_current_head()


def alembic_config(connection: Connection) -> Config:
    """Alembic's settings for work on an open connection."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config


@cache
def _migrations() -> ScriptDirectory:
    # Kept: it loads every script, and each opening of a store asks for the newest.
    return ScriptDirectory(str(_FOLDER))
