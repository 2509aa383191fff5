"""The schema revisions of a leaderboard: detects a store's, and adapts the previous one for
reading.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, column, event, inspect, select, table, text

from cse_platform.leaderboard.tables import Base

VERSION_TABLE = "cse_schema_version"
"""Not `alembic_version`, which both Optuna and MLflow use."""

HEAD_REVISION = "0012"
"""The newest migration: the schema of this version."""

PREVIOUS_REVISION = "0011"
"""The previous schema, which this version can read too."""

ADDED_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "configurations": {"averages": "NULL"},
}
"""Columns of `HEAD_REVISION` that `PREVIOUS_REVISION` lacks, by table, each with the SQL value that
readers get in their place.
"""


MIGRATION_LOCK = 0x0C5E_1EAD
"""Key of an advisory lock; arbitrary, but not used by another program on the server."""


def lock_schema(connection: Connection) -> None:
    """Lock out others who would change the schema; on SQLite the transaction itself locks."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))


def stored_revision(connection: Connection) -> str | None:
    """Read the schema revision of a store; None if the database has no leaderboard."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.scalar(
        select(column("version_num")).select_from(table(VERSION_TABLE))
    )
    return revision


def explain_other_schema(revision: str) -> str:
    """Explain that this version does not use a store of another schema, and the way out."""
    return (
        f"it has schema {revision!r} and this version of cse-platform needs {HEAD_REVISION!r}; "
        "cse-leaderboard rebuild, with its --runs or --store, makes it anew from the journals"
    )


def show_added_columns(engine: Engine) -> None:
    """Make connections to a store of `PREVIOUS_REVISION` show the columns that were added since.

    Each table that lacks columns is shadowed by a temporary view, which only its connection sees.
    The store is not changed.
    """
    with engine.connect() as connection:
        schema = inspect(connection).default_schema_name or "main"
    views = [_make_view(engine, schema, name) for name in ADDED_COLUMNS]

    def make_views(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for view in views:
            cursor.execute(view)
        connection.commit()

    engine.dispose()  # open connections do not have the views
    event.listen(engine, "connect", make_views)


def _make_view(engine: Engine, schema: str, name: str) -> str:
    columns = Base.metadata.tables[name].c
    added = ", ".join(
        f"{_cast_value(engine, columns[column].type, value)} AS {column}"
        for column, value in ADDED_COLUMNS[name].items()
    )
    return f"CREATE TEMPORARY VIEW {name} AS SELECT *, {added} FROM {schema}.{name}"


def _cast_value(engine: Engine, kind: Any, value: str) -> str:
    """Cast a value to a column's type; not on SQLite, where a cast to JSON yields a number."""
    if engine.dialect.name == "sqlite":
        return value
    return f"CAST({value} AS {kind.compile(engine.dialect)})"
