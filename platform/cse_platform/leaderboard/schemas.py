"""The schemas of a leaderboard: which one a store is of, and how the one before this is read."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, column, event, inspect, select, table

from cse_platform.leaderboard.tables import Base

VERSION_TABLE = "cse_schema_version"
"""Not `alembic_version`, which Optuna and MLflow both claim."""

HEAD_REVISION = "0012"
"""The last of the migrations: this version's schema."""

PREVIOUS_REVISION = "0011"
"""The schema before, which this version reads, too."""

ADDED_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "configurations": {"averages": "NULL"},
}
"""The columns by which `HEAD_REVISION` differs from `PREVIOUS_REVISION`, by table, each with the
SQL of what a reader finds where the store does not have it."""


def stored_revision(connection: Connection) -> str | None:
    """Read the revision of a store's schema; None if the database has no leaderboard."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.scalar(
        select(column("version_num")).select_from(table(VERSION_TABLE))
    )
    return revision


def explain_newer(revision: str) -> str:
    """Explain that a store is of a schema that this version does not know."""
    return (
        f"it was written by a newer version of cse-platform: its schema is {revision!r}, and this "
        f"version knows up to {HEAD_REVISION!r}; upgrade cse-platform"
    )


def show_added_columns(engine: Engine) -> None:
    """Let all connections to a store of `PREVIOUS_REVISION` see the columns that were added since.

    A temporary view, which its connection alone sees, stands before each table that lacks some.
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

    engine.dispose()  # the connections that are open do not have them
    event.listen(engine, "connect", make_views)


def _make_view(engine: Engine, schema: str, name: str) -> str:
    columns = Base.metadata.tables[name].c
    added = ", ".join(
        f"{_cast_value(engine, columns[column].type, value)} AS {column}"
        for column, value in ADDED_COLUMNS[name].items()
    )
    return f"CREATE TEMPORARY VIEW {name} AS SELECT *, {added} FROM {schema}.{name}"


def _cast_value(engine: Engine, kind: Any, value: str) -> str:
    """SQLite stores JSON as text, and would make a number of what is cast to it."""
    if engine.dialect.name == "sqlite":
        return value
    return f"CAST({value} AS {kind.compile(engine.dialect)})"
