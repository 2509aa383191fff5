"""Creates the schema of a store, and upgrades older stores, under a lock.

Only `cse-leaderboard upgrade` changes the schema of an existing store.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from cse_platform.copies import copy_sqlite, without_password
from cse_platform.errors import StoreError, StoreLostError
from cse_platform.leaderboard.schemas import (
    HEAD_REVISION,
    VERSION_TABLE,
    explain_other_schema,
    lock_schema,
    stored_revision,
)
from cse_platform.leaderboard.stored_sweeps import refuse_while_driven
from cse_platform.leaderboard.tables import Base


def migration_options() -> dict[str, Any]:
    """Return alembic's options for our tables."""
    return {
        "target_metadata": Base.metadata,
        "version_table": VERSION_TABLE,
        "render_as_batch": True,  # on SQLite, a table is altered by recreating it
    }


@contextmanager
def open_migration(engine: Engine) -> Iterator[Connection]:
    """Open a transaction in which tables with references to them can be recreated.

    SQLite would count the rows of a dropped table as deleted, so its foreign keys are checked only
    at the end.

    Raises:
        StoreLostError: if a row then refers to a missing one.
    """
    with engine.execution_options(writes=True).connect() as connection:
        sqlite = connection.dialect.name == "sqlite"
        driver = connection.connection
        if sqlite:  # within a transaction the pragma has no effect
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
        StoreError: if the store has a schema that this version does not know.
    """
    lock_schema(connection)
    config = alembic_config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    current = stored_revision(connection)
    if current is not None and current not in known:
        raise StoreError(explain_other_schema(current))
    command.upgrade(config, "head")


@dataclass(frozen=True)
class Upgraded:
    """The outcome of an upgrade."""

    before: str
    """The previous schema revision of the store."""
    copy: Path | None
    """The copy of the store before the upgrade; None on PostgreSQL, or if nothing was done."""

    @property
    def changed(self) -> bool:
        """Whether the store had an older schema."""
        return self.before != HEAD_REVISION


def upgrade_schema(engine: Engine, *, has_copy: bool) -> Upgraded:
    """Upgrade a store to this schema, all or nothing.

    A SQLite file is copied before, into the same folder. For PostgreSQL, `has_copy` confirms that
    somebody has made a copy.

    Raises:
        StoreError: if the schema is newer, a driver holds a sweep, or a PostgreSQL database has no
            copy; the message says how to make one.
    """
    with open_migration(engine) as connection:
        lock_schema(connection)
        before = stored_revision(connection) or HEAD_REVISION
        if before == HEAD_REVISION:
            return Upgraded(before, None)
        if before > HEAD_REVISION:
            raise StoreError(explain_other_schema(before))
        refuse_while_driven(connection)
        copy = _copy_beside(engine, before, has_copy=has_copy)
        migrate(connection)
    return Upgraded(before, copy)


def _copy_beside(engine: Engine, revision: str, *, has_copy: bool) -> Path | None:
    if engine.dialect.name == "sqlite":
        file = Path(str(engine.url.database))
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        copy = file.with_name(f"{file.stem}-{revision}-{moment}{file.suffix}")
        copy_sqlite(file, copy)
        return copy
    if not has_copy:
        place = without_password(engine.url)
        raise StoreError(
            f"it is of schema {revision!r}, and is upgraded to {HEAD_REVISION!r} once it has a "
            f"copy, which PostgreSQL's own tool makes: pg_dump --format=custom "
            f"--file=leaderboard-{revision}.dump {place.render_as_string()}; then give the same "
            "command --backed-up"
        )
    return None


def alembic_config(connection: Connection) -> Config:
    """Make alembic's configuration for work on an open connection."""
    config = Config(attributes={"connection": connection})
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    return config
